package dcpi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func goldens(t testing.TB) []string {
	t.Helper()
	return testenv.Files(t, "testdata/*.dcpi", 8)
}

func read(t testing.TB, name string) []byte {
	return testenv.Must(os.ReadFile(name))
}

func write(t testing.TB, p *Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, p.Write(&b))
	return b.Bytes()
}

// A spec says the lines and either the counts, to be packed, or the chunks of a
// golden file.
type spec struct {
	Lines  [][2]string
	Counts map[string]uint32
	Chunks [][2]json.RawMessage
}

// latin1 returns the bytes of a text whose characters stand for bytes.
func latin1(s string) string {
	var b []byte
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

func (s *spec) profile(t *testing.T) *Profile {
	t.Helper()
	p := &Profile{}
	for _, l := range s.Lines {
		p.Lines = append(p.Lines, NewLine(l[0], latin1(l[1])))
	}
	for _, c := range s.Chunks {
		var k chunk
		testenv.OK(t, errors.Join(json.Unmarshal(c[0], &k.Offset), json.Unmarshal(c[1], &k.Counts)))
		p.Chunks = append(p.Chunks, k)
	}
	if s.Counts != nil {
		var counts []addrCount
		for a, n := range s.Counts {
			addr := testenv.Must(strconv.ParseUint(a, 0, 64))
			counts = append(counts, addrCount{addr, n})
		}
		testenv.OK(t, p.Add(slices.Values(counts)))
	}
	return p
}

// Golden files are rewritten byte for byte, made of their specs, and shown as their listings.
func TestGoldens(t *testing.T) {
	specs := 0
	for _, name := range goldens(t) {
		p := testenv.Must(ReadFile(name, Options{}))
		want := read(t, name)
		testenv.Same(t, name+", rewritten", string(write(t, p)), string(want))
		base := strings.TrimSuffix(name, ".dcpi")
		if b, err := os.ReadFile(base + ".spec.json"); err == nil {
			specs++
			var s spec
			testenv.OK(t, json.Unmarshal(b, &s))
			testenv.Same(t, name+", of its spec", string(write(t, s.profile(t))), string(want))
		}
		var cat strings.Builder
		testenv.OK(t, p.Cat(&cat))
		testenv.Same(t, name, cat.String(), string(read(t, base+".cat")))
	}
	testenv.Within(t, "specs", specs, 4, 100)
}

func TestBadFilesAreRefused(t *testing.T) {
	reasons := map[string]struct {
		offset int64
		reason string
	}{
		"bad-period.dcpi":     {90, `period is "1e7", not a decimal number`},
		"big-endian.dcpi":     {188, "16777216 counts do not fit before the footer"},
		"empty-file.dcpi":     {0, `no "samples" line`},
		"footer-samples.dcpi": {244, "footer says 1 samples, chunks have 134"},
		"no-footer.dcpi":      {188, "0 bytes are too few for a footer"},
		"number-too-big.dcpi": {188, "4000000000 counts do not fit before the footer"},
		"overlap.dcpi":        {208, "chunk at offset 12 overlaps the one before, which ends at 13"},
		"trailing-junk.dcpi":  {244, "the last 12 bytes are neither a footer nor a chunk and a footer"},
		"two-events.dcpi":     {90, "header has a second event line, want exactly one"},
		"zero-number.dcpi":    {188, "chunk with no counts"},
	}
	files := testenv.Must(os.ReadDir("testdata/bad"))
	testenv.Within(t, "files", len(files), len(reasons), 100)
	for _, f := range files {
		want, ok := reasons[f.Name()]
		if !ok {
			t.Errorf("%s: no reason known", f.Name())
			continue
		}
		name := filepath.Join("testdata/bad", f.Name())
		err := testenv.Err(ReadFile(name, Options{}))
		testenv.Fails(t, name, err, fmt.Sprintf("%s: at byte %d: ", name, want.offset))
		testenv.Fails(t, name, err, want.reason)
	}
}

func TestHeaderValues(t *testing.T) {
	p := testenv.Must(ReadFile("testdata/2-unknown-lines.dcpi", Options{}))
	samples, _ := p.Value("samples")
	got := fmt.Sprintf("%#x %d %d %d %d %q %q %v", p.TextStart(), p.TextSize(), p.Period(), p.CPUSpeed(), p.Unit(), p.ImageName(), samples, testenv.Must(p.Epoch()))
	testenv.Same(t, "values", got, `0x120000000 8388608 63488 333 4 "x emacs" "not the terminator" 1997-03-28 08:14:00 +0000 UTC`)
}
