package pprof

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/google/pprof/profile"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
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
func equal(t rapid.TB, got, want *profile.Profile) {
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
		slices.SortFunc(out, func(a, b record) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return out
	}
	testenv.NoDiff(t, "records differ", cmp.Diff(expand(want), expand(got), cmp.EquateEmpty()))
	head := func(p *profile.Profile) profile.Profile {
		c := *p
		c.Frames, c.Records, c.Metadata, c.StartLines = nil, nil, nil, nil
		return c
	}
	testenv.NoDiff(t, "heads differ", cmp.Diff(head(want), head(got)))
}

// roundTrip writes a profile for pprof, and returns what gotach and pprof read.
func roundTrip(t rapid.TB, p *profile.Profile) (*profile.Profile, *pb.Profile) {
	var b bytes.Buffer
	testenv.OK(t, Write(&b, p))
	written := testenv.Must(unpack(bytes.NewReader(b.Bytes())))
	pp := testenv.Must(pb.Parse(&b))
	var reference bytes.Buffer
	testenv.OK(t, pp.Copy().WriteUncompressed(&reference))
	testenv.Same(t, "the fields that pprof's package writes", string(inOrder(written)), string(inOrder(reference.Bytes())))
	return testenv.Must(fromProto(pp)), pp
}

// inOrder sorts the fields of a message, which are numbers and bytes, by their numbers.
func inOrder(message []byte) []byte {
	var fields [][]byte
	for rest := message; len(rest) > 0; {
		end := 1 // no number is above 15
		value, n := binary.Uvarint(rest[end:])
		if end += n; rest[0]&7 == 2 {
			end += int(value)
		}
		fields, rest = append(fields, rest[:end]), rest[end:]
	}
	slices.SortStableFunc(fields, func(a, b []byte) int { return int(a[0]) - int(b[0]) })
	return bytes.Join(fields, nil)
}

// Whatever a profile has, gotach reads what it wrote, which is what pprof's own package writes.
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
		p.Program = text.Draw(t, "program")
		got, pp := roundTrip(t, p)
		testenv.Same(t, "default and mapping", [2]string{pp.DefaultSampleType, pp.Mapping[0].File}, [2]string{"wall", p.Program})
		got.Start = got.Start.In(p.Start.Location())
		equal(t, got, p)
	})
}

// Profiles that testdata/record.go recorded with runtime/pprof, all of whose time is CPU time, and with fgprof.
func TestFromRecorded(t *testing.T) {
	for _, c := range []struct {
		file, function                      string
		self, total, cpu, inLabel, interval time.Duration
		samples                             int64
	}{
		{"cpu", "main.spin", 80e6, 110e6, 110e6, 90e6, 10e6, 11},
		{"fgprof", "time.Sleep", 0, 499_999_981, 0, 0, 13_513_513, 37},
	} {
		p := testenv.Must(Read(testenv.Closes(t, testenv.Must(os.Open("testdata/"+c.file+".pb.gz")))))
		wall, cpu := p.Total()
		inLabel := time.Duration(0)
		for _, r := range p.Records {
			if r.Labels["job"] == "spin" {
				inLabel += r.Wall
			}
			testenv.FailIf(t, cpu > 0 && r.State != profile.Running, "%s: state %q", c.file, r.State)
		}
		testenv.Same(t, c.file, fmt.Sprint(wall, cpu, inLabel, p.Interval, p.Samples), fmt.Sprint(c.total, c.cpu, c.inLabel, c.interval, c.samples))
		rows := testenv.Must(profile.New(p, profile.ReportOptions{})).Rows
		i := slices.IndexFunc(rows, func(r profile.Row) bool { return r.Name == c.function })
		testenv.FailIf(t, i < 0 || rows[i].Total != c.total || rows[i].Self != c.self || rows[i].TotalCPU != c.cpu, "%s: rows %+v, want %+v", c.file, rows, c)
	}
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
		p, err := fromProto(c.p)
		if testenv.Fails(t, c.name, err, c.err); err != nil {
			continue
		}
		r := p.Records[0]
		testenv.Same(t, c.name, fmt.Sprint(r.Wall, r.CPU, r.Count), fmt.Sprint(c.wall, c.cpu, c.count))
		want := []profile.Frame{{Func: "0xabc"}, {Func: "inlined", File: "g.go", Line: 3}, {Func: "f", File: "f.go", Line: 7}}
		testenv.NoDiff(t, c.name, cmp.Diff(want, p.Frames))
	}
}

// many makes a profile of n records with a label of their own, of so many bytes.
func many(n, size int) *profile.Profile {
	b := profile.NewBuilder()
	f := b.Frame(profile.Frame{Func: "main.f", File: "f.go", Line: 3}, 1)
	for i := range n {
		b.Add(profile.Record{
			Goroutine: uint64(i + 1), State: profile.Running, Stack: []uint32{f}, Count: 1, Wall: time.Second, CPU: time.Second,
			Labels: map[string]string{"request": fmt.Sprint(strings.Repeat("x", size), i)},
		})
	}
	return b.Finish()
}

// The values of labels may take much memory; they are written as they come.
func TestManyLabels(t *testing.T) {
	const n, size = 30, 40 << 10 // more than the buffers of the compressor, and than its window
	p := many(n, size)
	var b bytes.Buffer
	testenv.OK(t, Write(&b, p))
	got := testenv.Must(Read(&b))
	testenv.Same(t, "records", len(got.Records), n)
	for i := range got.Records {
		testenv.Same(t, i, fmt.Sprint(got.Records[i].Labels["request"], got.Records[i].Goroutine), fmt.Sprint(p.Records[i].Labels["request"], p.Records[i].Goroutine))
	}
}

// A table forgets values when there are too many, and nothing else.
func TestManyValues(t *testing.T) {
	var table stringTable
	table.add("")
	name := table.add("name")
	first := table.value("first")
	testenv.Same(t, "numbers", [3]int64{table.value("first"), table.add("first"), table.value("name")}, [3]int64{first, first, name})
	for i := range maxValues {
		table.value(fmt.Sprint("v", i))
	}
	n := table.value("first")
	testenv.FailIf(t, n == first || len(table.values) > maxValues, "the first value has number %d again, %d are known", n, len(table.values))
	testenv.Same(t, "a name", [2]int64{table.add("name"), table.value("name")}, [2]int64{name, name})
}

func TestWriteFails(t *testing.T) {
	r, w := io.Pipe()
	r.CloseWithError(errors.New("no room"))
	for _, n := range []int{0, 5000} {
		testenv.Fails(t, fmt.Sprint(n, " records"), Write(w, many(n, 1000)), "no room")
	}
}
