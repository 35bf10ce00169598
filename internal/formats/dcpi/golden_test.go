package dcpi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	t.Helper()
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
		if got := write(t, p); !bytes.Equal(got, want) {
			t.Errorf("%s: rewritten as\n%q, want\n%q", name, got, want)
		}
		base := strings.TrimSuffix(name, ".dcpi")
		if b, err := os.ReadFile(base + ".spec.json"); err == nil {
			specs++
			var s spec
			testenv.OK(t, json.Unmarshal(b, &s))
			if got := write(t, s.profile(t)); !bytes.Equal(got, want) {
				t.Errorf("%s: written as\n%q, want\n%q", name, got, want)
			}
		}
		var cat strings.Builder
		testenv.OK(t, p.Cat(&cat))
		if want := string(read(t, base+".cat")); cat.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, cat.String(), want)
		}
	}
	if specs < 4 {
		t.Errorf("%d specs, want at least 4", specs)
	}
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
	files, err := os.ReadDir("testdata/bad")
	if err != nil || len(files) < len(reasons) {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		want, ok := reasons[f.Name()]
		if !ok {
			t.Errorf("%s: no reason known", f.Name())
			continue
		}
		name := filepath.Join("testdata/bad", f.Name())
		_, err := ReadFile(name, Options{})
		where := fmt.Sprintf("%s: at byte %d: ", name, want.offset)
		if err == nil || !strings.HasPrefix(err.Error(), where) || !strings.Contains(err.Error(), want.reason) {
			t.Errorf("error %v, want %s%s", err, where, want.reason)
		}
	}
}

func TestHeaderValues(t *testing.T) {
	p := testenv.Must(ReadFile("testdata/2-unknown-lines.dcpi", Options{}))
	got := map[string]any{
		"start": p.TextStart(), "size": p.TextSize(), "period": p.Period(),
		"speed": p.CPUSpeed(), "unit": p.Unit(), "name": p.ImageName(),
	}
	want := map[string]any{
		"start": uint64(0x120000000), "size": uint64(8388608), "period": uint64(63488),
		"speed": uint64(333), "unit": uint64(4), "name": "x emacs",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if e, err := p.Epoch(); err != nil || e.Format("2006-01-02 15:04") != "1997-03-28 08:14" {
		t.Errorf("epoch is %v, %v", e, err)
	}
	if v, _ := p.Value("samples"); v != "not the terminator" {
		t.Errorf("samples line has value %q", v)
	}
}
