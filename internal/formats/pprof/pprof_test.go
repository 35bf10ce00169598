package pprof

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goprof "runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/felixge/fgprof"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pb "github.com/google/pprof/profile"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"pgregory.net/rapid"
)

// sample is a profile with something of everything.
func sample() *profile.Profile {
	return &profile.Profile{
		Program: "/bin/prog", Start: time.Unix(1_700_000_000, 123).UTC(), Duration: 3 * time.Second, Interval: time.Millisecond,
		Samples: 10, Goroutines: 2,
		Frames: []profile.Frame{
			{Func: "[sleep]"},
			{Func: "time.Sleep", File: "time.go", Line: 300},
			{Func: "main.sleeper", File: "main.go", Line: 12},
			{Func: "main.sleeper", File: "main.go", Line: 15},
		},
		StartLines: []int32{0, 0, 10, 10},
		Records: []profile.Record{
			{Goroutine: 1, State: "sleep", Stack: []uint32{0, 1, 2}, Count: 7, Wall: 700 * time.Millisecond},
			{Goroutine: 1, State: "running", Stack: []uint32{3}, Count: 2, Wall: 20 * time.Millisecond, CPU: 20 * time.Millisecond,
				Labels: map[string]string{"state": "mine", "user": "ann", "label.x": "y"}},
			{Goroutine: 2, System: true, State: "syscall", Stack: []uint32{3}, Count: 1, Wall: time.Millisecond},
		},
	}
}

// equal compares two profiles whose frames may come in another order.
func equal(t interface{ Errorf(string, ...any) }, got, want *profile.Profile) {
	type record struct {
		profile.Record
		Frames []profile.Frame
		Starts []int32
	}
	expand := func(p *profile.Profile) (out []record) {
		for _, r := range p.Records {
			e := record{Record: r}
			for _, id := range r.Stack {
				e.Frames = append(e.Frames, p.Frames[id])
				start := int32(0)
				if p.StartLines != nil {
					start = p.StartLines[id]
				}
				e.Starts = append(e.Starts, start)
			}
			e.Stack = nil
			out = append(out, e)
		}
		return out
	}
	sort := cmpopts.SortSlices(func(a, b record) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
	if diff := cmp.Diff(expand(want), expand(got), sort, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("records differ:\n%s", diff)
	}
	head := func(p *profile.Profile) profile.Profile {
		c := *p
		c.Frames, c.Records, c.Metadata, c.StartLines = nil, nil, nil, nil
		return c
	}
	if diff := cmp.Diff(head(want), head(got)); diff != "" {
		t.Errorf("heads differ:\n%s", diff)
	}
}

// roundTrip writes a profile for pprof, and returns what gotach and pprof read.
func roundTrip(t interface{ Fatal(...any) }, p *profile.Profile) (*profile.Profile, *pb.Profile) {
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	written, err := unpack(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	pp, err := pb.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	var reference bytes.Buffer
	if err := pp.Copy().WriteUncompressed(&reference); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, reference.Bytes()) {
		t.Fatal(fmt.Sprintf("not the bytes that pprof's package writes:\n%q\n%q", written, reference.Bytes()))
	}
	got, err := fromProto(pp)
	if err != nil {
		t.Fatal(err)
	}
	return got, pp
}

func TestPProfRoundTrip(t *testing.T) {
	want := sample()
	got, pp := roundTrip(t, want)
	equal(t, got, want)
	if pp.DefaultSampleType != "wall" || pp.Mapping[0].File != "/bin/prog" {
		t.Errorf("default %q, mapping %v", pp.DefaultSampleType, pp.Mapping[0])
	}
}

func TestPProfRoundTripAny(t *testing.T) {
	text := rapid.StringMatching(`[a-z.\[\]é/]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		p := &profile.Profile{Interval: time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "interval")), Start: time.Unix(0, 1e18)}
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			f := profile.Frame{Func: text.Draw(t, "func"), File: text.Draw(t, "file"), Line: rapid.Int32Range(0, 1e6).Draw(t, "line")}
			p.Frames = append(p.Frames, f)
		}
		seen := map[string]bool{}
		goroutines := map[uint64]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "records") {
			r := profile.Record{
				Goroutine: rapid.Uint64Range(1, 4).Draw(t, "goroutine"), System: rapid.Bool().Draw(t, "system"),
				State: text.Draw(t, "state"),
				Count: rapid.Int64Range(1, 1e6).Draw(t, "count"), Wall: time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "wall")),
				Stack: rapid.SliceOfN(rapid.Uint32Range(0, uint32(len(p.Frames)-1)), 1, 8).Draw(t, "stack"),
			}
			r.CPU = time.Duration(rapid.Int64Range(0, int64(r.Wall)).Draw(t, "cpu"))
			if rapid.Bool().Draw(t, "labels") {
				r.Labels = rapid.MapOfN(rapid.OneOf(text, rapid.SampledFrom([]string{"state", "goroutine", "system", "label.state"})), text, 1, 3).Draw(t, "labels")
			}
			var frames []profile.Frame
			for _, id := range r.Stack {
				frames = append(frames, p.Frames[id])
			}
			key := fmt.Sprint(r.Goroutine, r.System, r.State, r.Labels, frames)
			if seen[key] {
				continue // one record for each, a profile.Profile says
			}
			seen[key] = true
			goroutines[r.Goroutine] = true
			p.Samples += r.Count
			p.Records = append(p.Records, r)
		}
		p.Goroutines = len(goroutines)
		got, _ := roundTrip(t, p)
		got.Start = got.Start.In(p.Start.Location())
		equal(t, got, p)
	})
}

// go tool pprof, which is what users have, sees what we mean.
func TestGoToolPProf(t *testing.T) {
	p := sample()
	p.Metadata = &tachyon.Metadata{Session: &tachyon.Session{BuildID: "the-build-id", Executable: "/opt/prog"}}
	path := filepath.Join(t.TempDir(), "x.pb.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(f, p); err != nil {
		t.Fatal(err)
	}
	f.Close()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"tool", "pprof"}, args...)...)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-top", path}, []string{
			"File: prog", "Build ID: the-build-id", "Type: wall", "Duration: 3s, Total samples = 721ms",
			"700ms 97.09% 97.09%      700ms 97.09%  [sleep]", "21ms  2.91%   100%      721ms   100%  main.sleeper",
		}},
		{[]string{"-top", "-sample_index=cpu", path}, []string{"Type: cpu", "Total samples = 20ms", "main.sleeper"}},
		{[]string{"-top", "-sample_index=samples", path}, []string{"Type: samples", "Total samples = 10"}},
		{[]string{"-tags", path}, []string{"goroutine: Total", "state: Total", "sleep", "label.state: Total", "mine", "user: Total"}},
		{[]string{"-raw", path}, []string{
			"samples/count wall/nanoseconds[dflt] cpu/nanoseconds", "state:[sleep]", "goroutine:[1 id]", "/opt/prog", "main.go:12:0 s=10",
		}},
	} {
		out := run(c.args...)
		for _, want := range c.want {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("go tool pprof %v lacks %q:\n%s", c.args[:len(c.args)-1], want, out)
			}
		}
	}
}

// parse reads a pprof profile of any writer.
func parse(t *testing.T, b []byte) (*profile.Profile, error) {
	t.Helper()
	pp, err := pb.ParseData(b)
	if err != nil {
		t.Fatal(err)
	}
	return fromProto(pp)
}

var spun int // keeps spin's work from being optimised away

//go:noinline
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		x := spun
		for i := range 100_000 { // with -race, accesses of spun would take the time, in the race detector's C code
			x += i * x
		}
		spun = x
	}
}

// Go's own CPU profile: all of its time is CPU time, its labels come along, and
// our report gives functions the time that the profile has for them.
func TestFromRuntimePProf(t *testing.T) {
	var b bytes.Buffer
	if err := goprof.StartCPUProfile(&b); err != nil {
		t.Fatal(err)
	}
	goprof.Do(t.Context(), goprof.Labels("job", "spin"), func(context.Context) { spin(300 * time.Millisecond) })
	goprof.StopCPUProfile()
	pp, err := pb.ParseData(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var all, inSpin, labelled time.Duration
	for _, s := range pp.Sample {
		d, in := time.Duration(s.Value[1]), false
		for _, l := range s.Location {
			for _, line := range l.Line {
				in = in || strings.HasSuffix(line.Function.Name, ".spin")
			}
		}
		all += d
		if in {
			inSpin += d
		}
		if s.HasLabel("job", "spin") {
			labelled += d
		}
	}
	if inSpin == 0 || labelled == 0 {
		t.Fatalf("the profile has %v, %v of it in spin and %v labelled", all, inSpin, labelled)
	}
	p, err := fromProto(pp)
	if err != nil {
		t.Fatal(err)
	}
	wall, cpu := p.Total()
	if wall != all || cpu != all || p.Interval != 10*time.Millisecond || p.Samples == 0 {
		t.Errorf("wall %v, CPU %v of %v, every %v, %d samples", wall, cpu, all, p.Interval, p.Samples)
	}
	for _, r := range p.Records {
		if r.Labels["job"] == "spin" {
			labelled -= r.Wall
		}
		if r.State != profile.Running {
			t.Errorf("state %q", r.State)
		}
	}
	if labelled != 0 {
		t.Errorf("%v with the label is lost", labelled)
	}
	r, err := profile.New(p, profile.ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if strings.HasSuffix(row.Name, ".spin") && row.Total != inSpin {
			t.Errorf("%s has %v, want %v", row.Name, row.Total, inSpin)
		}
	}
}

// fgprof's profile: wall time.
func TestFromFgprof(t *testing.T) {
	var b bytes.Buffer
	before, begin := testenv.Pauses(), time.Now()
	stop := fgprof.Start(&b, fgprof.FormatPprof)
	time.Sleep(200 * time.Millisecond)
	// fgprof divides by its ticks a second, rounded: it panics where there were few, as after
	// a stall. It stops the world twice a tick.
	enough := func() bool { return float64(testenv.Pauses()-before)/2 >= 10+2*time.Since(begin).Seconds() }
	for !enough() && time.Since(begin) < time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	p, err := parse(t, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	r, err := profile.New(p, profile.ReportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Name == "time.Sleep" {
			if row.Total < 100*time.Millisecond || row.TotalCPU != 0 {
				t.Errorf("time.Sleep: %v, %v on CPU", row.Total, row.TotalCPU)
			}
			return
		}
	}
	t.Errorf("no time.Sleep in %+v", r.Rows)
}

func TestFromPProfKinds(t *testing.T) {
	make := func(types []*pb.ValueType, period *pb.ValueType, n int64, values ...int64) *pb.Profile {
		f := &pb.Function{ID: 1, Name: "f", Filename: "f.go"}
		g := &pb.Function{ID: 2, Name: "inlined", Filename: "g.go"}
		l := &pb.Location{ID: 1, Line: []pb.Line{{Function: g, Line: 3}, {Function: f, Line: 7}}}
		raw := &pb.Location{ID: 2, Address: 0xabc}
		return &pb.Profile{
			SampleType: types, PeriodType: period, Period: n,
			Sample:   []*pb.Sample{{Location: []*pb.Location{raw, l}, Value: values}},
			Location: []*pb.Location{l, raw}, Function: []*pb.Function{f, g},
		}
	}
	ns := func(name string) *pb.ValueType { return &pb.ValueType{Type: name, Unit: "nanoseconds"} }
	count := func(name string) *pb.ValueType { return &pb.ValueType{Type: name, Unit: "count"} }
	for _, c := range []struct {
		name      string
		p         *pb.Profile
		wall, cpu time.Duration
		count     int64
		err       string
	}{
		{"cpu", make([]*pb.ValueType{count("samples"), ns("cpu")}, ns("cpu"), 10, 2, 20), 20, 20, 2, ""},
		{"fgprof", make([]*pb.ValueType{count("samples"), ns("time")}, ns("wall"), 10, 2, 30), 30, 0, 2, ""},
		{"block", make([]*pb.ValueType{count("contentions"), ns("delay")}, count("contentions"), 1, 2, 40), 40, 0, 2, ""},
		{"ms", make([]*pb.ValueType{{Type: "wall", Unit: "milliseconds"}}, nil, 0, 5), 5e6, 0, 0, ""},
		{"counts", make([]*pb.ValueType{count("samples")}, ns("cpu"), 10, 3), 30, 30, 3, ""},
		{"diff", make([]*pb.ValueType{count("samples"), ns("cpu")}, ns("cpu"), 10, -2, -20), 0, 0, 0, ""},
		{"huge", make([]*pb.ValueType{{Type: "wall", Unit: "seconds"}}, nil, 0, 1<<62), 1<<63 - 1, 0, 0, ""},
		{"heap", make([]*pb.ValueType{count("alloc_objects"), {Type: "alloc_space", Unit: "bytes"}}, &pb.ValueType{Type: "space", Unit: "bytes"}, 512, 1, 2),
			0, 0, 0, "has alloc_objects/count, alloc_space/bytes and no time"},
		{"none", &pb.Profile{}, 0, 0, 0, "no sample types"},
		{"invalid", make([]*pb.ValueType{ns("wall")}, nil, 0, 1, 2, 3), 0, 0, 0, "pprof profile: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := fromProto(c.p)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := p.Records[0]
			if r.Wall != c.wall || r.CPU != c.cpu || r.Count != c.count {
				t.Errorf("wall %d, CPU %d, count %d; want %d, %d, %d", r.Wall, r.CPU, r.Count, c.wall, c.cpu, c.count)
			}
			want := []profile.Frame{{Func: "0xabc"}, {Func: "inlined", File: "g.go", Line: 3}, {Func: "f", File: "f.go", Line: 7}}
			if diff := cmp.Diff(want, p.Frames); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Reading a profile that came back from go tool pprof's own writer.
func TestFromGoToolProto(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "x.pb.gz"), filepath.Join(dir, "y.pb.gz")
	var b bytes.Buffer
	want := sample()
	if err := Write(&b, want); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command("go", "tool", "pprof", "-proto", "-output="+out, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	back, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gzip.NewReader(bytes.NewReader(back)); err != nil {
		t.Fatal(err)
	}
	got, err := parse(t, back)
	if err != nil {
		t.Fatal(err)
	}
	got.Start = got.Start.UTC()
	equal(t, got, want)
}
