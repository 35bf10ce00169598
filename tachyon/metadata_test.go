package tachyon

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// numbered returns a Counts whose fields have the numbers n, n+1 and so on.
func numbered(n int64) (c Counts) {
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(n + int64(i))
	}
	return c
}

// Plus and Since handle all fields.
func TestCounts(t *testing.T) {
	a, b := numbered(100), numbered(1000)
	sum := a.Plus(b)
	for i, v := 0, reflect.ValueOf(sum); i < v.NumField(); i++ {
		want := 1100 + 2*int64(i)
		name := v.Type().Field(i).Name
		if name == "MaxGoroutines" {
			want = 1000 + int64(i)
		}
		testenv.Same(t, name, v.Field(i).Int(), want)
	}
	a.MaxGoroutines = b.MaxGoroutines
	testenv.Same(t, "back", sum.Since(b), a)
}

// The counts are keys of the session's JSON object, in the order of the first version.
func TestSessionJSON(t *testing.T) {
	b := testenv.Must(json.Marshal(Session{Rate: 1, Budget: 2, Counts: numbered(10), Error: "e"}))
	const want = `{"program":"","go_version":"","goos":"","goarch":"","gomaxprocs":0,"host":"","pid":0,` +
		`"start":"0001-01-01T00:00:00Z","duration_ns":0,"source":"","rate":1,"rate_reached":0,"budget_percent":2,` +
		`"cost_ns":10,"ticks_asked":11,"ticks_reached":12,"ticks_for_budget":13,"ticks_idle":14,"samples":15,"dropped":16,"torn":17,` +
		`"max_goroutines":18,"goroutines_omitted":19,"labels_omitted":20,"signal_taken":21,"goroutines_untracked":22,"ticks_refused":23,` +
		`"blind_ns":24,"not_seen_ns":25,"unwritten_ns":26,"throttled_periods":27,"throttled_ns":28,"process_cpu_ns":29,"cpu_at_ticks_ns":30,"error":"e"}`
	testenv.Same(t, "JSON", string(b), want)
}

// All of a progress goes into the session: each of its keys has the same value there.
func TestProgress(t *testing.T) {
	p := Progress{Duration: time.Hour, Source: "s", SourceReason: "why", RateReached: 3, Objects: "o", ObjectsUnnamed: "u", FarEndsUnknown: "f", Stops: true, Kept: "k", Counts: numbered(10)}
	var s Session
	p.Describe(&s)
	var from, to map[string]any
	for v, into := range map[any]*map[string]any{&p: &from, &s: &to} {
		testenv.OK(t, json.Unmarshal(testenv.Must(json.Marshal(v)), into))
	}
	testenv.Same(t, fmt.Sprint("fields that are set here: ", from), len(from), reflect.TypeFor[Progress]().NumField()+reflect.TypeFor[Counts]().NumField()-1)
	for key, v := range from {
		testenv.Same(t, key, to[key], v)
	}
}

// Parts of a goroutine's metadata are added up, in any order of their ends.
func TestGoroutineAdd(t *testing.T) {
	one, two := LabelSpan{From: 1}, LabelSpan{From: 2}
	g := Goroutine{ID: 7, Last: 5, FirstWeight: 9, Labels: []LabelSpan{one}}
	g.Add(&Goroutine{ID: 7, Last: 8, Labels: []LabelSpan{two}})
	g.Add(&Goroutine{ID: 7, Last: 3})
	testenv.NoDiff(t, "", cmp.Diff(Goroutine{ID: 7, Last: 8, FirstWeight: 9, Labels: []LabelSpan{one, two}}, g))
}

// The numbers of the format never change.
func TestFormat(t *testing.T) {
	got := fmt.Sprintf("%#x", []uint64{Magic, HeaderSize, FooterSize, CompressionNone, CompressionZstd, MaxDepth, uint64(CPython315), uint64(Document),
		uint64(HasGIL), uint64(OnCPU), uint64(Unknown), uint64(GILRequested), uint64(HasException), uint64(MainThread), uint64(Moved),
		User, Runtime, Process, FirstPseudo, RecordsVersion})
	testenv.Same(t, "numbers", got, "[0x54414348 0x40 0x20 0x0 0x1 0x100 0x1 0x2 0x1 0x2 0x4 0x8 0x10 0x20 0x40 0x0 0x1 0x2 0x4000000000000000 0x1]")
	testenv.Same(t, "layouts", fmt.Sprint(Layout(0), CPython315, Document, Layout(3)), "unknown cpython315 document unknown")
}

// Markers are the samples off the CPU of pseudo threads, and of the runtime's goroutines unless their waits count.
func TestMarker(t *testing.T) {
	some, all := &Session{Markers: true}, &Session{Markers: true, System: true}
	for _, c := range []struct {
		s           *Session
		interpreter uint32
		status      Status
		want        bool
	}{
		{nil, Process, 0, false}, {&Session{}, Process, 0, false}, {some, Process, 0, true}, {all, Process, 0, true}, {some, Process, HasGIL, true},
		{some, Process, OnCPU, false}, {some, Runtime, 0, true}, {all, Runtime, 0, false}, {some, Runtime, HasGIL | OnCPU, false}, {some, User, 0, false},
	} {
		testenv.Same(t, fmt.Sprintf("%+v: interpreter %d, status %b", c.s, c.interpreter, c.status), c.s.Marker(c.interpreter, c.status), c.want)
	}
}
