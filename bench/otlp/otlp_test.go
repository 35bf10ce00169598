package otlp

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/formats/otlp"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the goldens")

const (
	trace = "0af7651916cd43dd8448eb211c80319c"
	span  = "b7ad6b7169203331"
)

// sample is a profile with something of everything.
func sample() *profile.Profile {
	return &profile.Profile{
		Program: "shop", Start: time.Unix(1_700_000_000, 123).UTC(), Duration: 3 * time.Second, Interval: time.Millisecond,
		Frames: []profile.Frame{
			{Func: "[sleep]"},
			{Func: "time.Sleep", File: "time.go", Line: 300},
			{Func: "main.sleeper", File: "main.go", Line: 12},
			{Func: "main.sleeper", File: "main.go", Line: 15},
			{Func: "[not seen]"},
			{Func: "main.\xff", File: "\xfe.go", Line: 3},
		},
		StartLines: []int32{0, 0, 10, 10, 0, 0},
		Records: []profile.Record{
			{Goroutine: 1, State: "sleep", Stack: []uint32{0, 1, 2}, Count: 7, Wall: 700 * time.Millisecond},
			{Goroutine: 1, State: "running", Stack: []uint32{3}, Count: 2, Wall: 20 * time.Millisecond, CPU: 20 * time.Millisecond,
				Labels: map[string]string{"thread.id": "mine", "user": "ann", "label.x": "y", "": "z", "bad\xff": "\xff"}},
			{Goroutine: 2, System: true, State: "syscall", Stack: []uint32{3}, Count: 1, Wall: time.Millisecond},
			{Goroutine: 3, State: "running", Stack: []uint32{5, 2}, Count: 1, Wall: time.Millisecond, CPU: time.Millisecond,
				Labels: map[string]string{"trace_id": trace, "span_id": span, "route": "/"}},
			{Goroutine: 4, State: "no core", Stack: []uint32{2}, Count: 1, Wall: time.Millisecond, Labels: map[string]string{"trace_id": trace, "span_id": "zz"}},
			{State: profile.NotSeen, Stack: []uint32{4}, Wall: 5 * time.Millisecond},
			{Goroutine: 5, State: "running", Stack: []uint32{2}, Count: 1},
		},
		Metadata: &tachyon.Metadata{Session: &tachyon.Session{
			Program: "shop", Executable: "/opt/shop", BuildID: "a/b/c/d", Host: "web-1", PID: 42, GoVersion: "go1.26.0", GOOS: "linux", GOARCH: "amd64",
			Version: "v1.2.3", VCS: map[string]string{"vcs.revision": "abc", "vcs.modified": "true"}, Start: time.Unix(1_700_000_000, 123).UTC(),
		}},
	}
}

// decode decodes a message. It checks what the protocol demands of one, and that its bytes are those that the
// reference writes.
func decode(t rapid.TB, b []byte) *pb.ProfilesData {
	t.Helper()
	var d pb.ProfilesData
	testenv.OK(t, proto.Unmarshal(b, &d))
	reference := testenv.Must(proto.MarshalOptions{Deterministic: true}.Marshal(&d))
	testenv.FailIf(t, !bytes.Equal(b, reference), "not the bytes that the reference writes:\n%q\n%q", b, reference)
	dict := d.Dictionary
	zero := &pb.Link{TraceId: make([]byte, 16), SpanId: make([]byte, 8)}
	testenv.FailIf(t, !proto.Equal(dict.MappingTable[0], &pb.Mapping{}) || !proto.Equal(dict.LocationTable[0], &pb.Location{}) || !proto.Equal(dict.FunctionTable[0], &pb.Function{}) ||
		!proto.Equal(dict.AttributeTable[0], &pb.KeyValueAndUnit{}) || !proto.Equal(dict.StackTable[0], &pb.Stack{}) || dict.StringTable[0] != "" || !proto.Equal(dict.LinkTable[0], zero), "the first entries of the dictionary are not zero: %v", dict)
	unique(t, "strings", dict.StringTable)
	unique(t, "functions", dict.FunctionTable)
	unique(t, "locations", dict.LocationTable)
	unique(t, "stacks", dict.StackTable)
	unique(t, "attributes", dict.AttributeTable)
	unique(t, "links", dict.LinkTable)
	for _, p := range profiles(&d) {
		seen := map[string]bool{}
		for _, s := range p.Samples {
			id := fmt.Sprint(s.StackIndex, slices.Sorted(slices.Values(s.AttributeIndices)), s.LinkIndex)
			testenv.FailIf(t, seen[id], "two samples are %s", id)
			seen[id] = true
			keys := map[string]bool{}
			for _, i := range s.AttributeIndices {
				key := dict.StringTable[dict.AttributeTable[i].KeyStrindex]
				testenv.FailIf(t, keys[key] || key == "", "a sample has the attribute %q twice, or it has no name", key)
				keys[key] = true
			}
			testenv.FailIf(t, len(s.Values) != 1 || s.Values[0] <= 0, "values %v", s.Values)
		}
	}
	return &d
}

func unique[T any](t rapid.TB, name string, list []T) {
	seen := map[string]bool{}
	for _, e := range list {
		k := fmt.Sprint(e)
		testenv.FailIf(t, seen[k], "%s has %s twice", name, k)
		seen[k] = true
	}
}

func profiles(d *pb.ProfilesData) (list []*pb.Profile) {
	for _, r := range d.ResourceProfiles {
		for _, s := range r.ScopeProfiles {
			list = append(list, s.Profiles...)
		}
	}
	return list
}

func shown(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return fmt.Sprintf("%q", v.StringValue)
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	}
	return fmt.Sprintf("%T", v.Value)
}

// dump is a message as text, without the dictionary's numbers.
func dump(d *pb.ProfilesData) string {
	var b strings.Builder
	dict := d.Dictionary
	for _, r := range d.ResourceProfiles {
		for _, a := range r.Resource.Attributes {
			fmt.Fprintf(&b, "resource %s = %s\n", a.Key, shown(a.Value))
		}
		for _, s := range r.ScopeProfiles {
			fmt.Fprintf(&b, "scope %s\n", s.Scope.Name)
		}
	}
	attributes := func(list []int32) (s string) {
		for _, i := range list {
			a := dict.AttributeTable[i]
			s += fmt.Sprintf(" %s=%s", dict.StringTable[a.KeyStrindex], shown(a.Value))
		}
		return s
	}
	for _, m := range dict.MappingTable[1:] {
		fmt.Fprintf(&b, "mapping %s%s\n", dict.StringTable[m.FilenameStrindex], attributes(m.AttributeIndices))
	}
	for _, p := range profiles(d) {
		fmt.Fprintf(&b, "profile %s/%s at %d for %d, period %d, id %x\n", dict.StringTable[p.SampleType.TypeStrindex], dict.StringTable[p.SampleType.UnitStrindex],
			p.TimeUnixNano, p.DurationNano, p.Period, p.ProfileId)
		for _, s := range p.Samples {
			fmt.Fprintf(&b, "  %d%s", s.Values[0], attributes(s.AttributeIndices))
			if s.LinkIndex != 0 {
				l := dict.LinkTable[s.LinkIndex]
				fmt.Fprintf(&b, " link %x %x", l.TraceId, l.SpanId)
			}
			b.WriteString("\n")
			for _, i := range dict.StackTable[s.StackIndex].LocationIndices {
				l := dict.LocationTable[i]
				for _, line := range l.Lines {
					f := dict.FunctionTable[line.FunctionIndex]
					fmt.Fprintf(&b, "    %s %s:%d start %d mapping %d%s\n", dict.StringTable[f.NameStrindex], dict.StringTable[f.FilenameStrindex], line.Line, f.StartLine,
						l.MappingIndex, attributes(l.AttributeIndices))
				}
			}
		}
	}
	return b.String()
}

// The message of a profile with something of everything is the golden one of this version of the protocol.
func TestGolden(t *testing.T) {
	p := sample()
	e := otlp.NewEncoder()
	e.Goroutines = true
	for i := range p.Records {
		e.Add(p, &p.Records[i])
	}
	a := otlp.About{
		Session: p.Metadata.Session, Start: p.Start, Duration: p.Duration, Interval: p.Interval, WallID: [16]byte{1}, CPUID: [16]byte{2},
		Service: "cart", Resource: [][2]string{{"k8s.pod.name", "x"}, {"host.name", "node-7"}},
	}
	first := e.Message(&a)
	again := e.Message(&a)
	testenv.FailIf(t, !bytes.Equal(first, again), "the second message is another one")
	got := dump(decode(t, first))
	testenv.Golden(t, "testdata/v1development-1.11.txt", got, *update)
	e.Reset()
	testenv.FailIf(t, e.Size() > 100 || e.Records() != 0, "after Reset there are %d bytes of %d records", e.Size(), e.Records())
	e.Add(p, &p.Records[0])
	d := decode(t, e.Message(&a))
	testenv.FailIf(t, len(profiles(d)) != 1 || len(d.Dictionary.StackTable) != 2, "after Reset: %v", d)
}

// Whatever a profile has, the message has the same sums, and is one that receivers accept.
func TestAny(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "", "\xff", "thread.id", "label.a", "trace_id", "span_id", "go.goroutine.state", trace, span, "é"})
	rapid.Check(t, func(t *rapid.T) {
		b := profile.NewBuilder()
		frame := rapid.Custom(func(t *rapid.T) uint32 {
			n := rapid.Int32Range(0, 7).Draw(t, "frame")
			return b.Frame(profile.Frame{Func: fmt.Sprint("f", n/2), File: rapid.SampledFrom([]string{"", "x.go"}).Draw(t, "file"), Line: n}, 0)
		})
		for range rapid.IntRange(0, 30).Draw(t, "records") {
			r := profile.Record{Goroutine: uint64(rapid.IntRange(1, 3).Draw(t, "goroutine")), State: rapid.SampledFrom([]string{"", "running", "select", "not seen"}).Draw(t, "state"),
				System: rapid.Bool().Draw(t, "system"), Wall: time.Duration(rapid.IntRange(0, 5).Draw(t, "wall")), Labels: rapid.MapOfN(word, word, 0, 4).Draw(t, "labels"),
				Stack: rapid.SliceOfN(frame, 0, 4).Draw(t, "stack")}
			r.CPU = min(r.Wall, time.Duration(rapid.IntRange(0, 5).Draw(t, "cpu")))
			b.Add(r)
		}
		p := b.Finish()
		e := otlp.NewEncoder()
		e.Goroutines = true
		want, got, seen := map[string]int64{}, map[string]int64{}, map[string]bool{}
		for i := range p.Records {
			r := &p.Records[i]
			for _, k := range slices.Collect(maps.Keys(r.Labels)) { // texts that are different may be equal as UTF-8
				if !utf8.ValidString(k) {
					delete(r.Labels, k)
				} else if !utf8.ValidString(r.Labels[k]) {
					r.Labels[k] = "x"
				}
			}
			if id := fmt.Sprint(r.Goroutine, r.System, r.State, r.Labels, r.Stack); !seen[id] {
				seen[id] = true
				want["wall"] += int64(r.Wall)
				want["cpu"] += int64(r.CPU)
				e.Add(p, r)
			}
		}
		d := decode(t, e.Message(&otlp.About{}))
		for _, p := range profiles(d) {
			for _, s := range p.Samples {
				got[d.Dictionary.StringTable[p.SampleType.TypeStrindex]] += s.Values[0]
			}
		}
		testenv.FailIf(t, got["wall"] != want["wall"] || got["cpu"] != want["cpu"], "sums %v, want %v", got, want)
	})
}

// The sums of an OTLP profile are those of a report: for each function wall time and CPU time, as leaf and in all, and for
// each state the time in all.
func TestOTLPSums(t *testing.T) {
	files := testenv.Files(t, "../../internal/analyze/testdata/sessions/*.tach", 5)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { testSums(t, path) })
	}
}

func testSums(t *testing.T, path string) {
	in := testenv.Closes(t, testenv.Must(formats.Open(path, formats.Options{})))
	var b bytes.Buffer
	testenv.OK(t, in.Write(&b, "otlp", formats.Options{}))
	var d pb.ProfilesData
	testenv.OK(t, proto.Unmarshal(b.Bytes(), &d))
	dict, got, want := d.Dictionary, map[string]time.Duration{}, map[string]time.Duration{}
	for _, p := range d.ResourceProfiles[0].ScopeProfiles[0].Profiles {
		kind := dict.StringTable[p.SampleType.TypeStrindex]
		for _, s := range p.Samples {
			keys := map[string]bool{}
			for i, l := range dict.StackTable[s.StackIndex].LocationIndices {
				name := dict.StringTable[dict.FunctionTable[dict.LocationTable[l].Lines[0].FunctionIndex].NameStrindex]
				keys[kind+" below "+name] = true
				if i == 0 {
					keys[kind+" in "+name] = true
				}
			}
			for _, i := range s.AttributeIndices {
				if a := dict.AttributeTable[i]; slices.Contains([]string{"go.goroutine.state", "go.goroutine.wait_reason"}, dict.StringTable[a.KeyStrindex]) {
					keys[kind+" state "+a.Value.GetStringValue()] = true
				}
			}
			for key := range keys {
				got[key] += time.Duration(s.Values[0])
			}
		}
	}
	for _, r := range testenv.Must(in.Report(profile.ReportOptions{By: profile.ByFunction})).Rows {
		want["wall in "+r.Name], want["wall below "+r.Name] = r.Self, r.Total
		want["cpu in "+r.Name], want["cpu below "+r.Name] = r.SelfCPU, r.TotalCPU
	}
	for _, r := range testenv.Must(in.Report(profile.ReportOptions{By: profile.ByState})).Rows {
		want["wall state "+r.Name], want["cpu state "+r.Name] = r.Total, r.TotalCPU
	}
	maps.DeleteFunc(want, func(_ string, d time.Duration) bool { return d == 0 })
	delete(got, "wall state waiting") // its reason has an attribute of its own
	testenv.NoDiff(t, "sums", cmp.Diff(want, got))
}
