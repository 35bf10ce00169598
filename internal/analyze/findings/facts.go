package findings

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// A place is a line of the source.
type place struct {
	function, file string
	line           int
}

// A spotKey is what goroutines did at a line of the program's own code.
type spotKey struct {
	place
	state string
	op    string // see operations
	wait  string // as RecordFacts.Wait
	peer  string // as RecordFacts.Peer

	itself bool // as RecordFacts.Itself
}

// A spot is the time of goroutines there.
type spot struct {
	spotKey
	wall, cpu time.Duration
	asked     time.Duration // the part in requests
	dials     time.Duration // the part in dialConn, of which dials tells
	helps     time.Duration // the part of helpers
	asks      bool          // as RecordFacts.Asks
	series    []float32
}

// A doing is a line, and what goroutines do or wait for there.
type doing struct {
	place
	state string
}

func byDoing(a, b doing) int {
	return cmp.Or(byPlace(a.place, b.place), cmp.Compare(a.state, b.state))
}

// A site is the time of goroutines that wait for an object at a line, as Lock.Sites has it.
type site struct {
	asked time.Duration
	spots map[place]time.Duration // by line of the program's own code
}

// facts are what findings are made of.
type facts struct {
	Input
	p       *profile.Profile
	session *tachyon.Session // nil if unknown
	length  time.Duration
	spots   []*spot // the most time first; waits at one place in the whole session, leaks, and what looks at the program are not among them

	asked time.Duration // time of requests, all added up
	work  time.Duration // time of all goroutines that were not idle
	base  time.Duration // of which shares are: asked, or work if there are too few requests
	what  string        // base in words

	used        time.Duration // CPU time of all
	computed    time.Duration // CPU time of goroutines, without the runtime's own
	collected   time.Duration // CPU time of the garbage collector
	noCore      time.Duration // see profile.NoCore
	runnable    time.Duration
	askedQueue  time.Duration // the parts of noCore and runnable in requests
	hot, allocs map[place]time.Duration
	computes    map[place]*computed      // by function of the program: what requests compute
	entries     map[string]time.Duration // CPU time by the function that goroutines began with

	sites  map[doing]*site
	leaked map[doing]time.Duration // time of goroutines that leak, by place and state

	channels    *locks.Locks // see otherSide
	chainsKnown bool         // see chains
	chainsAt    map[place][]locks.WaitNode

	dialed bool // dials has told
	found  []Finding
}

const (
	// fewRequests is the number of requests below which their time says little.
	fewRequests = 20
	// leastShare is the share of the time below which a cause is not worth a sentence.
	leastShare = 0.1
	// leastAverage is the number of goroutines, on average, that something must keep from their
	// work.
	leastAverage = 0.05
)

func newFacts(in Input) *facts {
	f := &facts{
		Input: in, p: in.Survey.Profile, length: in.Survey.Profile.Duration,
		hot: map[place]time.Duration{}, allocs: map[place]time.Duration{}, computes: map[place]*computed{}, entries: map[string]time.Duration{},
	}
	if m := f.p.Metadata; m != nil {
		f.session = m.Session
	}
	f.leaked, f.sites = map[doing]time.Duration{}, map[doing]*site{}
	own, tell := f.p.OwnFrames(), in.Survey.Facts()
	f.apart(own)
	spots, operation := map[spotKey]*spot{}, operations(f.p)
	for i := range f.p.Records {
		rec := &f.p.Records[i]
		f.used += rec.CPU
		if isCollector(f.p, rec) {
			f.collected += rec.CPU
		}
		if rec.System || !rec.OfGoroutine() || in.Survey.Rests(rec) || in.Survey.IsApart(rec) {
			continue
		}
		of := tell(rec)
		if of.Itself && poolWaits[of.Wait] == "" {
			of.Wait, of.Peer = "", "" // its own server says why it is slow
		}
		key := spotKey{state: rec.State, op: spotOp(operation(rec), &of), wait: of.Wait, peer: of.Peer, itself: of.Itself}
		if id, ok := own(rec.Stack); ok {
			if key.place = placeOf(&f.p.Frames[id]); of.Request && rec.CPU > 0 {
				f.addComputed(rec, key.place, id)
			}
		}
		f.compute(rec, key.place)
		f.site(rec, &of, key.place)
		s := spots[key]
		if s == nil {
			s = &spot{spotKey: key}
			spots[key] = s
			f.spots = append(f.spots, s)
		}
		f.count(s, rec, &of)
	}
	slices.SortStableFunc(f.spots, func(a, b *spot) int { return cmp.Compare(b.wall, a.wall) })
	f.base, f.what = f.work, "the time of all goroutines that were not idle"
	enough := in.Requests == nil || in.Requests.Count >= fewRequests
	if enough && f.asked >= f.length/100 && in.Survey.Requests {
		f.base, f.what = f.asked, "the time of requests"
	}
	return f
}

// spotOp returns the operation of a record, given the one that its stack shows.
func spotOp(op string, of *report.RecordFacts) string {
	switch {
	case op == opSleep && of.Wait != "":
		return "" // it waits, and looks now and then
	case op != "":
		return op
	case of.Time == syntax.Delay, of.Time == syntax.OneTick && of.Request:
		return opSleep
	case of.Time != syntax.NoTime:
		return opTick
	}
	return ""
}

// count adds a record to its spot, and to the sums of all.
func (f *facts) count(s *spot, rec *profile.Record, of *report.RecordFacts) {
	s.wall += rec.Wall
	if s.op == opDNS || s.op == opTLS || s.op == opDial {
		switch {
		case slices.ContainsFunc(rec.Stack, func(id uint32) bool { return f.p.Frames[id].Func == dialConn }):
			s.dials += rec.Wall
		case helper.MatchString(f.p.Frames[rec.Stack[len(rec.Stack)-1]].Func):
			s.helps += rec.Wall
		}
	}
	s.asks = s.asks || of.Asks
	s.cpu += rec.CPU
	s.series = profile.Plus(s.series, rec.Series)
	f.work += rec.Wall
	queued := rec.State == profile.NoCore || rec.State == profile.Runnable
	switch rec.State {
	case profile.NoCore:
		f.noCore += rec.Wall
	case profile.Runnable:
		f.runnable += rec.Wall
	}
	if of.Request {
		s.asked += rec.Wall
		f.asked += rec.Wall
		if queued {
			f.askedQueue += rec.Wall
		}
	}
}

// apart adds what is set apart: it has a part of the CPU time, and leaks have a finding.
func (f *facts) apart(own func([]uint32) (uint32, bool)) {
	for kind, records := range f.Survey.Apart {
		for i := range records {
			rec := &records[i]
			if !f.p.HasApart {
				f.used += rec.CPU
			}
			if id, ok := own(rec.Stack); ok && kind == int(report.Leaked) {
				f.leaked[doing{placeOf(&f.p.Frames[id]), rec.State}] += rec.Wall
			}
		}
	}
}

// site notes where a record waits for an object.
func (f *facts) site(rec *profile.Record, of *report.RecordFacts, own place) {
	if of.Site.Func == "" {
		return
	}
	key := doing{placeOfHolder(&of.Site), rec.State}
	x := f.sites[key]
	if x == nil {
		x = &site{spots: map[place]time.Duration{}}
		f.sites[key] = x
	}
	x.spots[own] += rec.Wall
	if of.Request {
		x.asked += rec.Wall
	}
}

// ownOf returns the line of the program's own code of those that wait at a site.
func (f *facts) ownOf(s *locks.Site) place {
	at := placeOfSite(s)
	if x := f.sites[doing{at, s.Reason}]; x != nil {
		if own, _ := most(x.spots, byPlace); own.function != "" {
			return own
		}
	}
	return at
}

// byRequests reports whether shares are those of the time of requests.
func (f *facts) byRequests() bool { return f.what == "the time of requests" }

// of returns the part of a spot that counts.
func (f *facts) of(s *spot) time.Duration {
	if f.byRequests() {
		return s.asked
	}
	return s.wall
}

// compute adds the CPU time of a record.
func (f *facts) compute(rec *profile.Record, at place) {
	if rec.CPU == 0 {
		return
	}
	f.computed += rec.CPU
	f.hot[place{function: at.function, file: at.file}] += rec.CPU
	entry := ""
	for n := len(rec.Stack) - 1; n >= 0 && entry == ""; n-- {
		if fr := &f.p.Frames[rec.Stack[n]]; fr.File != "" && !(strings.HasPrefix(fr.Func, "runtime.") && fr.Func != "runtime.main") && fr.Func != "runtime.main" {
			entry = fr.Func
		}
	}
	f.entries[entry] += rec.CPU
	for _, id := range rec.Stack {
		if strings.HasPrefix(f.p.Frames[id].Func, "runtime.mallocgc") || f.p.Frames[id].Func == "runtime.growslice" {
			f.allocs[at] += rec.CPU
			break
		}
	}
}

// most returns the key with the most time.
func most[K comparable](times map[K]time.Duration, less func(a, b K) int) (key K, time time.Duration) {
	for k, t := range times {
		if t > time || t == time && less(k, key) < 0 {
			key, time = k, t
		}
	}
	return key, time
}

func byPlace(a, b place) int {
	return cmp.Or(strings.Compare(a.function, b.function), cmp.Compare(a.line, b.line))
}

// worth reports whether a time is worth a sentence, given the least share of base.
func (f *facts) worth(t time.Duration, share float64) bool {
	return f.base > 0 && float64(t) >= share*float64(f.base) && float64(t) >= leastAverage*float64(f.length)
}

// share returns t as a share of base, at most 1.
func (f *facts) share(t time.Duration) float64 {
	if f.base <= 0 {
		return 0
	}
	return min(1, float64(t)/float64(f.base))
}

// add adds a finding about a place.
func (f *facts) add(x Finding, at place) {
	x.place = at
	switch x.Kind {
	case Lock, Pool, Channel, Straggler:
		// These keep goroutines from all else, so that the time of what others do meanwhile says
		// little.
		if !f.byRequests() && f.length > 0 {
			x.clock = min(1, float64(x.Cost)/float64(f.length))
		}
	}
	x.Function, x.File, x.Line = profile.FuncName(at.function), at.file, at.line
	x.Command = "gotach " + strings.ReplaceAll(x.Command, "%s", f.Files)
	f.found = append(f.found, x)
}

// endPart is the part of the most of a series below which it has ended.
const endPart = 0.05

// span returns when a series has time.
func (f *facts) span(series []float32) (s Span) {
	if len(series) == 0 {
		return s
	}
	at := func(i int) int64 { return f.length.Microseconds() * int64(i) / int64(len(series)) }
	most := slices.Max(series)
	if first := slices.IndexFunc(series, func(v float32) bool { return v >= most/4 }); 5*first >= len(series) {
		s.Since = at(first)
	}
	last := len(series)
	for last > 0 && series[last-1] < endPart*most {
		last--
	}
	if 5*last <= 4*len(series) {
		s.Until = at(last)
	}
	return s
}

func placeOf(f *profile.Frame) place { return place{f.Func, f.File, int(f.Line)} }

func placeOfSite(s *locks.Site) place { return place{s.Func, s.File, s.Line} }

func placeOfHolder(h *locks.HolderFrame) place { return place{h.Func, h.File, h.Line} }

// leaks reports whether goroutines that wait at a line leak.
func (f *facts) leaks(site *locks.Site) bool {
	return f.leaked[doing{f.ownOf(site), site.Reason}] > 0 || f.leaked[doing{placeOfSite(site), site.Reason}] > 0
}

// seriesAt returns when goroutines were at a place.
func (f *facts) seriesAt(at place) (series []float32) {
	for _, s := range f.spots {
		if s.place == at {
			series = profile.Plus(series, s.series)
		}
	}
	return series
}
