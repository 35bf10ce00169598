package diff

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

func diff(t *testing.T, a, b *analyze.Samples, o Options) *Diff {
	return testenv.Must(Find([]*analyze.Samples{a}, []*analyze.Samples{b}, o))
}

// parts returns the rows without those of the whole.
func parts(d *Diff) (rows []Row) {
	for _, r := range d.Rows {
		if r.Level != LevelWhole {
			rows = append(rows, r)
		}
	}
	return rows
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
func TestJudgeMachine(t *testing.T) {
	noCore, queued := [2]float64{0.1, 0.8}, 1.0
	m := judgeMachine(queued, 0.5, [2]float64{0.9, 0.4}, noCore)
	for _, c := range []struct {
		what string
		a, b float64
		want bool
	}{
		{WhatCPU, 0.81, 0.41, false}, // the machine gave half of the time
		{WhatCPU, 0.3, 0.4, true},    // more, although there is less for all
		{WhatCPU, 0, 0.08, true},     // new
		{WhatCPU, 0.2, 0.02, true},   // much less
		{WhatWait, 0.3, 0.4, false},
		{WhatWait, 0, 0.08, true},       // new
		{WhatWait, 0.013, 0.001, false}, // little
		{WhatWait, 0.1, 0.15, false},    // half as much more, but less than the machine's difference
		{WhatWait, 0.1, 1.3, true},      // more than the machine's difference
	} {
		for _, turned := range []bool{false, true} {
			a, b, on := c.a, c.b, m
			if turned {
				a, b, on.least, on.most = b, a, 1/on.most, 1/on.least
			}
			row := Row{Name: "main.f", Level: LevelSelf, What: c.what, A: a, B: b, Delta: b - a}
			f := rowFamily{[]*Row{&row}, [][]trial{on.trials(&row, func(speed float64) effect { return effect{delta: b/speed - a} })}, 1}
			f.judge()
			testenv.FailIf(t, row.Significant != c.want || row.Significant != (row.Low > 0 || row.High < 0), "%s %v and %v differ significantly: %v, want %v", c.what, a, b, row.Significant, c.want)
		}
	}
}

// The rate of Benjamini and Hochberg: of p 0.01, 0.02, 0.03 and 0.5 the first three are found, of which Holm's correction finds
// none. A row that has much of the time is found where it is not if each row counts as much. The interval of a row has 0 exactly
// if it is not significant.
func TestJudgeFamily(t *testing.T) {
	for _, c := range []struct {
		p, size []float64
		want    string
	}{
		{[]float64{0.01, 0.02, 0.03, 0.5}, []float64{1, 1, 1, 1}, "yyyn"},
		{[]float64{0.02, 0.5, 0.6, 0.7}, []float64{1, 1, 1, 1}, "nnnn"},
		{[]float64{0.02, 0.5, 0.6, 0.7}, []float64{49, 1, 1, 1}, "ynnn"},
		{[]float64{0.04, 0.04, 0.04, 0.04}, []float64{1, 1, 1, 1}, "yyyy"},
		{[]float64{0.06, 0.06}, []float64{1, 1}, "nn"},
	} {
		f := rowFamily{share: 1}
		for i, p := range c.p {
			f.rows = append(f.rows, &Row{Level: LevelSelf, A: c.size[i]})
			f.trials = append(f.trials, []trial{{effect{delta: studentQuantile(p, 20), error: 1, freedom: 20}, 0}})
		}
		f.judge()
		got := ""
		for _, r := range f.rows {
			got += map[bool]string{true: "y", false: "n"}[r.Significant]
			testenv.FailIf(t, r.Significant != (r.P < 0.05) || r.Significant != (r.Low > 0), "%v: %+v", c, *r)
		}
		testenv.Same(t, fmt.Sprint(c.p, c.size), got, c.want)
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
			testenv.Same(t, name, names.name(&tachyon.Frame{File: c.file, Func: name}), c.want)
		}
	}
}

// Literals have one name only if the Go versions differ.
func TestDiffVersions(t *testing.T) {
	record := func(version, function string) *analyze.Samples {
		r := analyzetest.Record(t)
		for at := uint64(1); at <= 10; at++ {
			r.Add(1, at*second, analyzetest.Running, tachyon.Frame{File: "main.go", Func: function, Line: 1})
		}
		return analyzetest.SamplesOf(t, stream.Options{}, r.Finish(tachyon.Session{GoVersion: version, Markers: true}))
	}
	testenv.Same(t, "rows of two versions", len(parts(diff(t, record("go1.26.8", "main.f.func8"), record("go1.27.0", "main.f.func6"), Options{}))), 1)
	testenv.Same(t, "rows of one version", len(parts(diff(t, record("go1.26.8", "main.f.func8"), record("go1.26.1", "main.f.func6"), Options{}))), 2)
}

// Values are those of printed tables of Student's distribution.
func TestStudent(t *testing.T) {
	for _, c := range []struct{ p, freedom, t float64 }{
		{0.05, 1, 12.706}, {0.05, 5, 2.5706}, {0.01, 10, 3.1693}, {0.001, 30, 3.6460}, {0.05, 1000, 1.9623}, {0.5, 4, 0.7407}, {0.001, 60, 3.4602},
	} {
		testenv.Within(t, fmt.Sprintf("%v at %v degrees of freedom", c.p, c.freedom), studentQuantile(c.p, c.freedom), c.t*(1-2e-4), c.t*(1+2e-4))
		testenv.Within(t, fmt.Sprintf("%v at %v degrees of freedom", c.t, c.freedom), studentTail(c.t, c.freedom), c.p*(1-2e-3), c.p*(1+2e-3))
	}
}

// Welch's test gives what the textbook's formula does: means 4.95 and 7.5, errors 0.953 and 0.866.
func TestCompare(t *testing.T) {
	e := welch([]float64{1.1, 8.8, 2.2, 7.7, 3.3, 6.6, 4.4, 5.5}, []float64{4, 11, 5, 10, 6, 9, 7, 8})
	testenv.FailIf(t, math.Abs(e.delta-2.55) > 1e-9 || math.Abs(e.error-1.28744) > 1e-4 || math.Abs(e.freedom-13.8738) > 1e-3, "%+v", e)
	testenv.Within(t, "p", e.chance(0), 0.0673, 0.0683)
	// Values that hardly change from one to the next say little, however many they are. If they grow all the time, what
	// is by chance is how much.
	var slow, fast, grows []float64
	for i := range 64 {
		slow = append(slow, float64(i/8%4))
		fast = append(fast, float64(i%4))
		grows = append(grows, float64(i+i%3)/10)
	}
	a, _ := compare(slow, slow)
	b, _ := compare(fast, fast)
	testenv.FailIf(t, a.error < 2*b.error || a.freedom > b.freedom/4 || a.grows, "the error of slow values is %+v, that of fast ones %+v", a, b)
	c, _ := compare(grows, grows)
	testenv.FailIf(t, !c.grows || c.error > 1, "of values that grow: %+v", c)
	_, ok := compare(slow[:4], fast)
	testenv.Same(t, "four values are compared", ok, false)
}

// What a program does more than in the run before is found: 2 % of a core, and 5 ms in each job. Two runs of one program
// do not differ.
func TestDiffOfSessions(t *testing.T) {
	open := func(name string) (*analyze.Samples, *analyzetest.Session) {
		s := analyzetest.OpenSession(t, "../testdata/sessions", name)
		return s.Samples(t), s
	}
	before, _ := open("before")
	again, _ := open("again")
	after, s := open("after")
	testenv.Same(t, "two runs of one program", fmt.Sprint(significant(diff(t, before, again, Options{}))), "[]")
	for _, r := range diff(t, after, before, Options{Per: "share", By: "total"}).Rows {
		testenv.FailIf(t, r.Name == "main.plantedRetry" && (!r.Significant || r.B != 0 || math.Abs(r.A*6/1.5-1) > 0.1), "the other way round, by share of 6 goroutines: %+v", r)
	}
	d := diff(t, before, after, Options{})
	rows, text := map[string]Row{}, &bytes.Buffer{}
	for _, r := range d.Rows {
		rows[r.Name] = r
		analyzetest.PrintFinding(t, text, "row", r)
	}
	testenv.Golden(t, "../testdata/sessions/diff.findings", text.String(), *analyzetest.Update)
	work := rows["main.plantedWork"]
	testenv.FailIf(t, work.A != 0 || !work.Significant || math.Abs(work.Delta-0.02) > 0.005, "the 2 %% are %+v", work)
	want := float64(s.Truth.Waited) / float64(d.Length[1].Microseconds())
	retry := rows["[sleep] main.plantedRetry"]
	testenv.FailIf(t, retry.A != 0 || !retry.Significant || math.Abs(retry.Delta-want) > want/50, "the wait is %+v, the log says %.3f more", retry, want)
}

// load records 20 s of a server with 4 connections. Between two requests a client waits for pause on average, in
// µs. A tick comes every ms. A batch job has phases that last seconds, so samples are far from independent. Each request queries for 6 ms on average, and renders for 4. The first file has so many requests, and in
// each of them main.retry sleeps for wait.
func load(t testing.TB, seed, pause, wait uint64) (s *analyze.Samples, requests int) {
	r := analyzetest.Record(t)
	rng := rand.New(rand.NewPCG(seed, 11))
	const length = 20 * second
	for g := uint64(10); g < 14; g++ {
		at := uint64(0)
		spend := func(mean uint64, status tachyon.Status, frames ...tachyon.Frame) {
			frames = append(frames, analyzetest.Place("net/http.conn.serve", 7))
			end := min(length, at+mean/4+uint64(rng.ExpFloat64()*float64(mean*3/4)))
			r.Every(1000, at-at%1000+1000, end, g, status, frames...)
			at = end
		}
		serve := analyzetest.Place("net/http.serverHandler.ServeHTTP", 9)
		for at < length {
			spend(pause, 0, tachyon.Frame{Func: "[IO wait]"}, analyzetest.Place("net/http.readRequest", 3))
			spend(6000, 0, tachyon.Frame{Func: "[select]"}, analyzetest.Place("main.query", 30), serve)
			spend(4000, analyzetest.Running, analyzetest.Place("main.render", 40), serve)
			if wait > 0 {
				spend(wait, 0, tachyon.Frame{Func: "[sleep]"}, analyzetest.Place("main.retry", 44), serve)
			}
			requests++
		}
	}
	for at, i := uint64(1), 0; at < length; i++ {
		r.Add(5, at, analyzetest.Running, analyzetest.Place([]string{"main.load", "main.sort", "main.store"}[i%3], 3), analyzetest.Place("main.batch", 1))
		at = min(length, at+uint64(rng.ExpFloat64()*1_500_000))
	}
	return r.Close(), requests
}

// More load changes the time on the wall clock, but not the time of a request.
func TestDiffPerRequest(t *testing.T) {
	a, n := load(t, 1, 30_000, 0)
	b, m := load(t, 2, 15_000, 0)
	testenv.Has(t, "what is significant by the clock on the wall", fmt.Sprint(significant(diff(t, a, b, Options{}))), "[select] main.query", "main.render")
	d := diff(t, a, b, Options{Per: "request"})
	for side, want := range []int{n, m} {
		testenv.Within(t, "requests", float64(d.Requests[side]), 0.97*float64(want), 1.03*float64(want))
		testenv.Within(t, "the time of a request", d.Request[side], 9*time.Millisecond, 11*time.Millisecond)
	}
	for _, r := range parts(d) {
		testenv.Same(t, r.Name, r.Significant, r.Name == "[IO wait] net/http.readRequest")
		if want := map[string]float64{"[select] main.query": 6e6, "main.render": 4e6}[r.Name]; want > 0 && (math.Abs(r.A-want) > 0.1*want || math.Abs(r.B-want) > 0.1*want) {
			t.Errorf("%+v, want %v", r, want)
		}
	}
	c, _ := load(t, 3, 15_000, 1000)
	d = diff(t, b, c, Options{Per: "request"})
	i := slices.IndexFunc(d.Rows, func(r Row) bool { return r.Name == "[sleep] main.retry" })
	testenv.FailIf(t, i < 0 || !d.Rows[i].Significant || d.Rows[i].Low > 1e6 || d.Rows[i].High < 0.95e6 || d.Rows[i].A != 0, "1 ms more for each request: %+v", d.Rows)
	testenv.Fails(t, "without requests", testenv.Err(Find([]*analyze.Samples{a}, []*analyze.Samples{analyzetest.Record(t).Close()}, Options{Per: "request"})), "no samples")
}

// Two runs of the same program do not differ, by whatever they are compared.
func TestDiffAA(t *testing.T) {
	testenv.Again(t)
	testenv.Long(t)
	options := []Options{{Per: "request"}, {Per: "share"}}
	for _, by := range Bys {
		options = append(options, Options{By: by})
	}
	for i := range uint64(testenv.Times(2, 6)) {
		a, _ := load(t, 1100+2*i, 20_000, 500)
		b, _ := load(t, 1101+2*i, 20_000, 500)
		for _, o := range options {
			d := diff(t, a, b, o)
			testenv.Same(t, fmt.Sprintf("differences by %+v", o), fmt.Sprint(significant(d)), "[]")
			testenv.FailIf(t, o.Per == "" && min(d.Windows[0], d.Windows[1]) < minWindows, "%d windows", d.Windows)
		}
	}
}

// A simulation makes what a differ adds up of two runs, window by window.
type simulation struct {
	*differ
	rng *rand.Rand
}

const simulatedWindows = 60

func simulate(seed uint64) *simulation {
	s := &simulation{&differ{o: Options{By: "function", Per: "wall"}, number: map[diffKey]int32{}}, rand.New(rand.NewPCG(seed, 3))}
	for side := range 2 {
		for range simulatedWindows {
			s.lengths[side] = append(s.lengths[side], second/6)
			s.all[side] = append(s.all[side], second/6)
		}
	}
	for _, key := range wholes {
		s.row(key)
	}
	return s
}

// walk returns values around 1 that depend on the ones before.
func (s *simulation) walk(depends, spread float64) (list []float64) {
	x := s.rng.NormFloat64()
	for range simulatedWindows {
		list = append(list, max(0, 1+spread*x))
		x = depends*x + math.Sqrt(1-depends*depends)*s.rng.NormFloat64()
	}
	return list
}

// add gives a row so much of a goroutine or core in each window, in samples of 4 ms, and the rows of the whole too if it is of a
// function itself.
func (s *simulation) add(side int, key diffKey, mean float64, factor []float64) {
	rows := []int32{s.row(key)}
	if key.level == LevelSelf {
		rows = append(rows, wholeGoroutines)
		if key.what == WhatCPU {
			rows = append(rows, wholeCPU)
		}
	}
	const each = 4000 // µs
	for i, length := range s.lengths[side] {
		samples := 0
		for at := s.rng.ExpFloat64(); at < mean*factor[i]*length/each; at += s.rng.ExpFloat64() {
			samples++
		}
		for _, r := range rows {
			row := &s.rows[r]
			if row.time[side] == nil {
				row.time[side] = make([]float32, simulatedWindows)
			}
			row.time[side][i] += float32(each * samples)
		}
	}
}

// program adds a program that uses 0.4 cores in functions of all sizes, with waits of all sizes. On side B the machine is so many
// times as fast. The CPU time that there is changes from window to window by spread.
func (s *simulation) program(side int, speed, spread float64) (machine []float64) {
	machine = s.walk(0.8, spread)
	for i := range machine {
		machine[i] *= speed
	}
	for i := range 20 {
		s.add(side, diffKey{fmt.Sprint("main.f", i), LevelSelf, WhatCPU}, 0.2/math.Pow(1.7, float64(i)), machine)
		s.add(side, diffKey{fmt.Sprint("main.t", i), LevelTotal, WhatCPU}, 0.4/math.Pow(1.4, float64(i)), machine)
		s.add(side, diffKey{fmt.Sprint("[select] main.w", i), LevelSelf, WhatWait}, 10/math.Pow(1.6, float64(i)), s.walk(0.8, 0.3))
	}
	return machine
}

// Of two runs of one program nothing differs, also where what it does changes slowly and the machine is a little faster in one.
// What a run does more is found by its name: a function that takes 4 % of the CPU time, on a quiet machine and beside another
// program, and goroutines that leak. What is said of a row never contradicts its interval.
func TestDiffSimulated(t *testing.T) {
	testenv.Again(t)
	const all = 40
	times := testenv.Times(10, all)
	planted := diffKey{"main.planted", LevelTotal, WhatCPU}
	leak := diffKey{"[chan receive] main.leak", LevelSelf, WhatWait}
	for _, c := range []struct {
		what          string
		speed, spread float64
		plant         func(s *simulation, machine [2][]float64)
		name          string // the first one that differs; "": nothing does
		least         int
	}{
		{"nothing", 1, 0.05, nil, "", 38},
		{"nothing, on a faster machine", 1.08, 0.2, nil, "", 38},
		{"4 % of the CPU", 1, 0.05, func(s *simulation, machine [2][]float64) { s.add(1, planted, 0.016, machine[1]) }, planted.name, 36},
		{"4 % of the CPU, beside another program", 0.8, 0.3, func(s *simulation, machine [2][]float64) {
			for side := range 2 {
				s.add(side, diffKey{rowNoCore, LevelSelf, WhatWait}, []float64{0.2, 0.4}[side], s.walk(0.8, 0.3))
			}
			s.add(1, planted, 0.016, machine[1])
		}, planted.name, 28},
		{"a leak", 1, 0.05, func(s *simulation, _ [2][]float64) {
			for side, last := range []float64{100, 236} {
				grows := make([]float64, simulatedWindows)
				for i := range grows {
					grows[i] = float64(i+1) / simulatedWindows
				}
				s.add(side, leak, last, grows)
			}
		}, leak.name, all},
	} {
		right := 0
		for seed := range uint64(times) {
			s := simulate(1 + seed)
			machine := [2][]float64{s.program(0, 1, c.spread), s.program(1, c.speed, c.spread)}
			if c.plant != nil {
				c.plant(s, machine)
			}
			first, different := "", 0
			for _, r := range s.result() {
				testenv.FailIf(t, r.Tested && r.Significant != (r.Low > 0 || r.High < 0) || r.Significant != (r.P < 0.05) || r.Low > r.Delta || r.Delta > r.High, "%+v", r)
				if r.Significant && r.Level != LevelWhole {
					if different++; different == 1 {
						first = r.Name
					}
				}
			}
			if first == c.name && (c.name != "" || different == 0) {
				right++
			}
		}
		testenv.FailIf(t, right*all < c.least*times, "%s: %d of %d are right", c.what, right, times)
	}
}
