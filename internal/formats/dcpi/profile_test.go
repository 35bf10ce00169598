package dcpi

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// header returns the lines of a valid header; with replaces or adds lines.
func header(with ...string) Header {
	lines := []Line{
		"version\tpdb-0.07", "image\t20261121033416a1b2c3", "epoch\t2611210334", "platform\tdevbox",
		"event\tcpu_ns", "period\t1000000", "tstart\t401000", "tsize\t1048576", "cpuspeed\t2600",
	}
	for _, l := range with {
		i := slices.IndexFunc(lines, func(o Line) bool { return o.Word() == Line(l).Word() })
		if i < 0 {
			lines = append(lines, Line(l))
		} else {
			lines[i] = Line(l)
		}
	}
	return Header{Lines: lines}
}

func without(h Header, word string) Header {
	h.Lines = slices.DeleteFunc(slices.Clone(h.Lines), func(l Line) bool { return l.Word() == word })
	return h
}

func TestCountsSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]uint64{1, 2, 4, 8}).Draw(t, "unit")
		counts := rapid.MapOfN(
			rapid.Custom(func(t *rapid.T) uint64 {
				return 0x401000 + unit*rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(0, 1048576/unit-1)).Draw(t, "n")
			}),
			rapid.Uint32Range(1, 1<<20), 0, 60).Draw(t, "counts")
		h := header("x-unit " + strconv.FormatUint(unit, 10))
		if pad := rapid.IntRange(0, 8).Draw(t, "pad"); pad > 0 {
			h.Lines = append(h.Lines, Line("note "+strings.Repeat("x", pad)))
		}
		p := &Profile{Header: h}
		list := make([]addrCount, 0, len(counts))
		var sum uint64
		for a, n := range counts { // in no order
			list = append(list, addrCount{a, n})
			sum += uint64(n)
		}
		testenv.OK(t, p.Add(slices.Values(list)))
		var b bytes.Buffer
		testenv.OK(t, p.Write(&b))
		n := bytes.Index(b.Bytes(), []byte("\nsamples"))
		testenv.FailIf(t, (n+bytes.IndexByte(b.Bytes()[n+1:], '\n')+2)%4 != 0, "binary part does not start at a multiple of 4: %q", b.Bytes())
		q := testenv.Must(Read(&b, "x", Options{}))
		got := map[uint64]uint32{}
		for c := range q.Counts() {
			got[c.Addr] = c.Count
		}
		testenv.NoDiff(t, "counts", cmp.Diff(counts, got))
		addresses, samples := q.Total()
		testenv.Same(t, "addresses and samples", [2]uint64{addresses, samples}, [2]uint64{uint64(len(counts)), sum})
		for i, c := range q.Chunks {
			for j := 1; j < len(c.Counts); j++ {
				testenv.FailIf(t, c.Counts[j] == 0 && c.Counts[j-1] == 0, "a run of zeros as long as a new chunk's head was bridged")
			}
			if i > 0 {
				prev := q.Chunks[i-1]
				gap := uint64(c.Offset) - uint64(prev.Offset) - unit*uint64(len(prev.Counts))
				testenv.FailIf(t, gap/unit < 2, "a gap of %d counts was not bridged", gap/unit)
			}
		}
		// Adding the same again doubles every count and leaves the lines.
		testenv.OK(t, q.Add(slices.Values(list)))
		for c := range q.Counts() {
			testenv.Same(t, fmt.Sprintf("%#x", c.Addr), c.Count, 2*counts[c.Addr])
		}
		testenv.NoDiff(t, "lines", cmp.Diff(h.Lines, q.Lines))
	})
}

func TestAddRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		with   []string
		counts []addrCount
		want   string
	}{
		{"one sum", nil, []addrCount{{0x401000, math.MaxUint32}, {0x401000, 1}}, "exceeds the format's 32 bits"},
		{"total", nil, []addrCount{{0x401000, math.MaxUint32}, {0x401001, 1}}, "exceeds the format's 32 bits"},
		{"before text", nil, []addrCount{{0x400fff, 1}}, "not within 4 GiB"},
		{"far away", []string{"tsize 0"}, []addrCount{{0x401000 + 1<<32, 1}}, "not within 4 GiB"},
		{"after text", nil, []addrCount{{0x501000, 1}}, "beyond the text section"},
		{"last address", []string{"tstart fffffffffffffff0", "tsize 0"}, []addrCount{{math.MaxUint64, 1}}, "beyond the last address"},
		{"between units", []string{"x-unit 4"}, []addrCount{{0x401002, 1}}, "not a multiple of 4"},
	} {
		p := &Profile{Header: header(tt.with...)}
		testenv.OK(t, p.Add(slices.Values([]addrCount{{p.TextStart() + 4, 7}})))
		before := write(t, p)
		testenv.Fails(t, tt.name, p.Add(slices.Values(tt.counts)), tt.want)
		testenv.Same(t, tt.name, string(write(t, p)), string(before))
	}
}

func TestWriteRefuses(t *testing.T) {
	ok := []chunk{{0, []uint32{1}}}
	for _, tt := range []struct {
		name string
		p    Profile
		want string
	}{
		{"line feed", Profile{header("note a\nb"), ok}, "line feed"},
		{"line of one word", Profile{header("note"), ok}, `not "word value"`},
		{"no period", Profile{without(header(), "period"), ok}, "no period line"},
		{"major 1", Profile{header("version pdb-1.01"), ok}, "major version 1 is not documented"},
	} {
		var b bytes.Buffer
		testenv.Fails(t, tt.name, tt.p.Write(&b), tt.want)
		testenv.FailIf(t, b.Len() > 0, "%s: %d bytes were written before the error", tt.name, b.Len())
	}
}

// oneSample is a valid binary part with one sample at offset 16.
const oneSample = "\x10\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00" + "\x01\x00\x00\x00\x01\x00\x00\x00"

func TestHeaderRules(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header Header
		lax    bool
		want   string // part of the error; "" for none
	}{
		{name: "all lines", header: header("cpuamask 0F", "cpuimplv 1", "cpucount 2", "path /a b")},
		{name: "epoch of 12 digits", header: header("epoch 261121033416")},
		{name: "epoch of 14 digits", header: header("epoch 20261121033416")},
		{name: "epoch of 11 digits", header: header("epoch 26112103341"), want: "epoch is"},
		{name: "spaces for tabs", header: header("image   \t abc")},
		{name: "trailing space", header: header("period 100  ")},
		{name: "minor 6", header: header("version pdb-0.06")},
		{name: "major 1", header: header("version pdb-1.01"), want: "major version 1 is not documented"},
		{name: "no major", header: header("version 0.07"), want: "version is"},
		{name: "0x", header: header("tstart 0x401000"), want: "tstart is"},
		{name: "65 bits", header: header("tsize 18446744073709551616"), want: "tsize is"},
		{name: "unit 0", header: header("x-unit 0"), want: "x-unit is"},
		{name: "image", header: header("image xyz"), want: "image is"},
		{name: "no version", header: without(header(), "version"), want: "no version line"},
		{name: "no tstart", header: without(header(), "tstart"), want: "no tstart line"},
		{name: "no image", header: without(header(), "image"), lax: true, want: "no image line"},
		{name: "lax", header: without(without(header(), "tstart"), "version"), lax: true},
		{name: "lax twice", header: Header{Lines: append(header().Lines, "tstart 1")}, lax: true, want: "second tstart line"},
		{name: "optional twice", header: Header{Lines: append(header().Lines, "path /a", "path /b")}},
	} {
		in := string(tt.header.append(nil)) + oneSample
		p, err := Read(strings.NewReader(in), "x", Options{Lax: tt.lax})
		if testenv.Fails(t, tt.name, err, tt.want); err != nil {
			continue
		}
		testenv.FailIf(t, tt.lax && !slices.Equal(slices.Collect(p.Counts()), []addrCount{{16, 1}}), "%s: offsets are addresses", tt.name)
		testenv.Same(t, tt.name, string(write(t, p)), in)
	}
}

func TestMergeKeepsUnknownLines(t *testing.T) {
	a := testenv.Must(ReadFile("testdata/2-unknown-lines.dcpi", Options{}))
	b := testenv.Must(ReadFile("testdata/2-unknown-lines.dcpi", Options{}))
	lines := slices.Clone(a.Lines)
	b.Lines = append(b.Lines, "x-mood\tsunny")
	testenv.OK(t, a.Merge(b))
	back := testenv.Must(Read(bytes.NewReader(write(t, a)), "x", Options{}))
	testenv.NoDiff(t, "lines after rewriting", cmp.Diff(append(lines, "x-mood\tsunny"), back.Lines))
	_, n := a.Total()
	testenv.Same(t, "samples", n, 94)
	b.Lines[slices.IndexFunc(b.Lines, func(l Line) bool { return l.Word() == "event" })] = "event imiss"
	testenv.Fails(t, "merging another event", a.Merge(b), `differ in event: "cycles" and "imiss"`)
}

// Sessions differ a little in what their samples stand for on average.
func TestMergeOfPeriods(t *testing.T) {
	a := &Profile{Header: header("event wall_ns", "period 1000")}
	testenv.OK(t, a.Add(slices.Values([]addrCount{{0x401000, 5}})))
	b := &Profile{Header: header("event wall_ns", "period 1500")}
	testenv.OK(t, b.Add(slices.Values([]addrCount{{0x401000, 2}, {0x401010, 1}, {0x401020, 1}})))
	testenv.OK(t, a.Merge(b))
	want := []addrCount{{0x401000, 8}, {0x401010, 2}, {0x401020, 1}}
	testenv.NoDiff(t, "counts", cmp.Diff(want, slices.Collect(a.Counts())))
	testenv.Same(t, "period", a.Period(), 1000)
	for lines, want := range map[[2]string]string{
		{"event wall_ns", "period 1"}: "exceeds the format's 32 bits",
		{"event wall_ns", "period 0"}: "differ in period",
		{"event cycles", "period 1"}:  "differ in",
	} {
		p := &Profile{Header: header(lines[:]...)}
		big := &Profile{Header: header(lines[0], "period 5000000000")}
		testenv.OK(t, big.Add(slices.Values([]addrCount{{0x401000, 2}})))
		testenv.Fails(t, lines[1], p.Merge(big), want)
	}
}

func TestLongHeaderIsRefusedEarly(t *testing.T) {
	r := strings.NewReader("word " + strings.Repeat("x", 8<<20))
	testenv.Fails(t, "", testenv.Err(Read(struct{ io.Reader }{r}, "x", Options{})), "within the first")
	testenv.FailIf(t, r.Len() < 6<<20, "%d bytes are left", r.Len())
}

// Frames have the time of their samples.
func TestFrameCounts(t *testing.T) {
	files := testenv.Files(t, "../../../testdata/tachyon/document-v2/*.bin", 5)
	for _, name := range files {
		r := testenv.Closes(t, testenv.Must(reader.Open(name)))
		var want count
		var lost int64
		src := testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{Markers: true}))
		for s, err := range src.Samples() {
			weight := uint64(s.Wall.Microseconds())
			switch {
			case err != nil:
				t.Fatal(err)
			case s.Marker:
				continue
			case s.Stack == 0:
				lost++
				continue
			case s.Status&tachyon.OnCPU != 0:
				want.add(count{cpu: 1, cpuTime: weight})
			}
			want.add(count{wall: 1, wallTime: weight})
		}
		counts, gotLost, err := frameCounts(src)
		testenv.OK(t, err)
		var got count
		for _, c := range counts {
			got.add(*c)
		}
		testenv.Same(t, name, fmt.Sprintf("%+v %d", got, gotLost), fmt.Sprintf("%+v %d", want, lost))
	}
}

func TestFromSessionSaysWhatIsMissing(t *testing.T) {
	for want, change := range map[string]func(*tachyon.Metadata) time.Duration{
		"not recorded by gotach":   func(m *tachyon.Metadata) time.Duration { *m = tachyon.Metadata{}; return 1 },
		"source (portable)":        func(m *tachyon.Metadata) time.Duration { m.PCs = nil; return 1 },
		"time between two samples": func(m *tachyon.Metadata) time.Duration { return 0 },
		"event wall_ns: the sum of count": func(m *tachyon.Metadata) time.Duration {
			m.PCs.PCs = []tachyon.LeafPC{{Addr: 2, Wall: 1<<32 - 1}, {Addr: 3, Wall: 1}}
			return 1
		},
	} {
		m := &tachyon.Metadata{
			Session: &tachyon.Session{Source: "portable"},
			PCs:     &tachyon.LeafPCs{TextStart: 1, TextSize: 9, PCs: []tachyon.LeafPC{{Addr: 2, Wall: 1}}},
		}
		interval := change(m)
		testenv.Fails(t, "", testenv.Err(FromSession(m, interval)), want)
	}
}

func TestCPUInfo(t *testing.T) {
	for text, want := range map[string]uint64{
		"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2599.998\nprocessor\t: 1\ncpu MHz\t\t: 1200.000\n": 2600,
		"processor\t: 0\nBogoMIPS\t: 100.00\n": 0,
	} {
		testenv.Same(t, text, uint64(cpuinfoMHz(text)), want)
	}
}

func FuzzRead(f *testing.F) {
	bad, _ := filepath.Glob("testdata/bad/*.dcpi")
	for _, name := range append(goldens(f), bad...) {
		f.Add(read(f, name), false)
	}
	h := without(without(header(), "tstart"), "version")
	f.Add(append(h.append(nil), oneSample...), true)
	f.Fuzz(func(t *testing.T, b []byte, lax bool) {
		var p *Profile
		var err error
		testenv.Bounded(t, 1<<20+64*len(b), func() { p, err = Read(bytes.NewReader(b), "fuzz", Options{Lax: lax}) })
		if err != nil {
			return
		}
		testenv.Same(t, "written again", string(write(t, p)), string(b))
		testenv.OK(t, p.Cat(io.Discard))
		p.Epoch()
		p.Path()
		if err := p.Add(slices.Values(slices.Collect(p.Counts()))); err == nil {
			write(t, p)
		}
	})
}
