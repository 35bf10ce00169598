package analyze

import (
	"math"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

func diff(t *testing.T, a, b *Samples, o DiffOptions) *Diff {
	t.Helper()
	d := must(FindDiff([]*Samples{a}, []*Samples{b}, o))(t)
	return d
}

func significant(d *Diff) (names []string) {
	for i := range d.Rows {
		if d.Rows[i].Significant {
			names = append(names, d.Rows[i].Name)
		}
	}
	return names
}

// If another program used the machine during one run, its rows are smaller there. Only what differs much more is
// significant.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want bool
	}{
		{0.81, 0.37, false},   // on a CPU, and the machine gave half of the time
		{0.013, 0.001, false}, // little
		{0.3, 0.4, false},
		{0, 0.08, true},    // new
		{0.2, 0.02, true},  // much less
		{0.1, 0.15, false}, // half as much more, but less than the machine's difference
		{0.1, 1.3, true},   // more than the machine's difference
	} {
		rows := []DiffRow{
			{Name: rowNoCore, A: 0.1, B: 0.8, Delta: 0.7, P: 1, unit: 1},
			{Name: rowRunnable, A: 0.1, B: 0.4, Delta: 0.3, P: 1, unit: 1},
			{Name: "main.f", A: c.a, B: c.b, Delta: c.b - c.a, Low: c.b - c.a, High: c.b - c.a, P: 0.0001, unit: 1},
		}
		if judge(rows, 0.5); rows[2].Significant != c.want {
			t.Errorf("%v and %v differ significantly: %v, want %v", c.a, c.b, rows[2].Significant, c.want)
		}
		// The same the other way round.
		rows[2].A, rows[2].B, rows[2].Delta, rows[2].Low, rows[2].High, rows[2].P = c.b, c.a, c.a-c.b, c.a-c.b, c.a-c.b, 0.0001
		if judge(rows, 2); rows[2].Significant != c.want {
			t.Errorf("%v and %v differ significantly: %v, want %v", c.b, c.a, rows[2].Significant, c.want)
		}
	}
}

// Halves of one profile can be compared.
func TestDiffBetween(t *testing.T) {
	r := record(t)
	for i := uint64(1); i <= 20; i++ {
		name := "main.before"
		if i > 10 {
			name = "main.after"
		}
		r.add(1, i*second, running, place(name, 1))
	}
	f := r.finish(tachyon.Session{})
	part := func(since, until string) *Samples {
		return samplesOf(t, selection(t, stream.Selection{}, since, until), f)
	}
	first, second := part("", "10s"), part("10s", "")
	d := diff(t, first, second, DiffOptions{})
	if len(d.Rows) != 2 || d.Length != [2]time.Duration{10 * time.Second, 10 * time.Second} {
		t.Fatalf("%+v", d)
	}
	for _, r := range d.Rows {
		if want := map[string]float64{"main.before": -1, "main.after": 1}[r.Name]; math.Abs(r.Delta-want) > 0.11 || !r.Significant {
			t.Errorf("%+v, want %v", r, want)
		}
	}
}

// The same function literal has the same name, whichever Go version compiled it.
func TestClosures(t *testing.T) {
	for _, c := range []struct{ file, go126, go127, want string }{
		{"main.go", "main.main.G[...].Do.func12", "main.G[...].Do.func1", "main.main.G[...].Do.func"},
		{"main.go", "main.main.G[...].Do.func12.1", "main.G[...].Do.func1.1", "main.main.G[...].Do.func"},
		{"slices/iter.go", "main.main.Values[...].func13", "slices.Values[...].func1", "main.main.Values[...].func"},
		{"main.go", "main.main.func6", "main.main-range1.1", "main.main.func"},
		{"main.go", "main.(*T).M.gowrap1", "main.(*T).M.gowrap2", "main.(*T).M.func"},
		{"main.go", "main.main", "main.main", "main.main"},
		{"x.go", "example.com/x.v1.F.func1", "example.com/x.v1.F.func2", "example.com/x.v1.F.func"},
	} {
		names := closures{}
		for _, name := range []string{c.go126, c.go127} {
			if got := names.name(&tachyon.Frame{File: c.file, Func: name}); got != c.want {
				t.Errorf("%s is %s, want %s", name, got, c.want)
			}
		}
	}
}

// Literals have one name only if the Go versions differ.
func TestDiffVersions(t *testing.T) {
	record := func(version, function string) *Samples {
		r := record(t)
		for at := uint64(1); at <= 10; at++ {
			r.add(1, at*second, running, tachyon.Frame{File: "main.go", Func: function, Line: 1})
		}
		return samplesOf(t, stream.Options{}, r.finish(tachyon.Session{GoVersion: version, Markers: true}))
	}
	if d := diff(t, record("go1.26.8", "main.f.func8"), record("go1.27.0", "main.f.func6"), DiffOptions{}); len(d.Rows) != 1 {
		t.Errorf("%+v", d.Rows)
	}
	if d := diff(t, record("go1.26.8", "main.f.func8"), record("go1.26.1", "main.f.func6"), DiffOptions{}); len(d.Rows) != 2 {
		t.Errorf("%+v", d.Rows)
	}
}

// The tests give the p that the textbooks' formulas do.
func TestMannWhitney(t *testing.T) {
	a := []float64{1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7, 8.8}
	b := []float64{4, 5, 6, 7, 8, 9, 10, 11}
	// U is 15, its mean 32, its deviation 9.52; with the correction that is 1.733 deviations away.
	if p := mannWhitney(a, b); math.Abs(p-0.08312) > 0.00005 {
		t.Errorf("p is %v", p)
	}
	if p := mannWhitney([]float64{0, 0, 0, 0, 0}, []float64{0, 0, 0, 0, 0}); p != 1 {
		t.Errorf("of equal values, p is %v", p)
	}
	p := []float64{0.01, 0.04, 0.03, 0.005}
	holm([]*float64{&p[0], &p[1], &p[2], &p[3]})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if math.Abs(p[i]-want) > 1e-12 {
			t.Errorf("p[%d] is %v, want %v", i, p[i], want)
		}
	}
}
