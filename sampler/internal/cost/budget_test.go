//go:build linux && (amd64 || arm64)

package cost

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// A machine simulates ticks, visits and passes with given costs, in ns.
type machine struct {
	b      *Budget
	now    Clocks
	random *rand.Rand

	tick, visit, handler float64 // of a tick, of a visit in tick thread and drain, of an interruption
	pass                 float64
	busy                 float64 // Ps that run something at a tick
	process              float64 // CPU time of the program itself, ns per ns
	left                 float64 // of a tick
	movers               float64 // goroutines that a tick finds moved
	noise                float64 // costs vary by this factor from pass to pass, up or down
}

func newMachine(percent float64, rate int) *machine {
	m := &machine{random: rand.New(rand.NewPCG(1, 2)), busy: 2, process: 2}
	m.now = Clocks{At: time.Unix(1, 0), Procs: 2, Cores: 2}
	m.b = NewBudget(percent, rate, m.now)
	return m
}

// run simulates d. It returns the cost as a share of the machine, in percent.
func (m *machine) run(d time.Duration) float64 {
	begin, from := m.b.Total, m.now.At
	for end := from.Add(d); m.now.At.Before(end); {
		n := &m.now
		every := m.b.Every
		n.At = n.At.Add(every)
		m.left += float64(every) / m.b.Period
		ticks := math.Floor(m.left)
		m.left -= ticks
		visits := min(float64(m.b.Quota), m.movers) * ticks
		factor := math.Exp(m.noise * (2*m.random.Float64() - 1))
		n.Ticks += ticks
		n.Visits += visits
		n.Wanted += m.movers * ticks
		n.Running += ticks * m.busy
		n.Answered += ticks * m.busy
		n.Handling += ticks * m.busy * m.handler * factor
		n.Visiting += visits * m.visit / 4 * factor
		n.Ticker += (ticks*m.tick + visits*m.visit/4) * factor
		n.Records += visits + ticks*m.busy
		n.Reading += visits * m.visit * 3 / 4 * factor
		n.Pass = (m.pass + visits*m.visit*3/4) * factor
		n.Process += float64(every)*m.process + ticks*(m.tick+20e3) + visits*m.visit + 500e3
		m.b.Spend(*n)
	}
	return 100 * float64(m.b.Total-begin) / float64(m.now.At.Sub(from)) / m.now.Cores
}

func (m *machine) rate() float64 { return 1e9 / m.b.Period }

// TestBudgetHolds checks that the cost ends at the budget, or that all ticks and visits are made if
// they cost less. If goroutines that move are too many, ticks get rarer for them down to a certain number, then they are
// visited in turns.
func TestBudgetHolds(t *testing.T) {
	for _, c := range []struct {
		name                 string
		cores                float64
		spare                int // Ps beyond the cores that the process may use
		percent              float64
		rate                 int
		tick, visit, handler float64
		movers               float64
		want                 string // percent of the machine, ticks a second, visits that a tick may make
	}{
		{"cheap", 2, 0, 1, 1000, 2000, 100, 500, 10, "0.57 % 1000 135"},
		{"ticks", 2, 0, 1, 1000, 30_000, 100, 1000, 10, "1.00 % 475 16"},
		{"ticks alone", 2, 0, 1, 1000, 30_000, 400, 1000, 0, "1.00 % 487 16"},
		{"ticks and visits", 2, 0, 1, 1000, 30_000, 400, 1000, 100, "1.00 % 250 90"},
		{"more visits than ticks", 2, 0, 1, 1000, 30_000, 400, 1000, 10_000, "1.00 % 250 90"},
		{"handlers", 2, 0, 1, 1000, 5000, 100, 20_000, 10, "1.00 % 356 16"},
		{"a small budget", 2, 0, 0.2, 1000, 30_000, 400, 1000, 100, "0.20 % 67 16"},
		{"a small budget and few goroutines", 2, 0, 0.2, 1000, 30_000, 400, 1000, 10, "0.20 % 72 16"},
		{"visits cost more than ticks", 2, 0, 1, 1000, 100_000, 10_000, 1000, 100, "1.00 % 69 16"},
		{"a big budget", 2, 0, 100, 1000, 30_000, 400, 1000, 1000, "21.98 % 1000 5533"},
		{"a low rate", 2, 0, 1, 10, 30_000, 400, 1000, 1000, "0.33 % 10 4978"},
		{"one core", 1, 0, 1, 1000, 30_000, 10_000, 1000, 10, "1.00 % 63 16"},
		{"one core, dear ticks", 1, 0, 1, 1000, 300_000, 10_000, 1000, 10, "1.00 % 20 16"},
		{"one core, ticks beyond the budget", 1, 0, 1, 1000, 2e6, 10_000, 1000, 100, "2.39 % 10 16"},
		{"a quota of 1.5 cores", 1.5, 0, 1, 1000, 100_000, 1000, 1000, 10, "1.00 % 113 16"},
		{"a quota of a quarter of a core", 0.25, 1, 1, 1000, 100_000, 1000, 1000, 10, "1.00 % 17 16"},
	} {
		m := newMachine(c.percent, c.rate)
		m.now.Procs, m.now.Cores, m.busy, m.process = int(math.Ceil(c.cores))+c.spare, c.cores, c.cores, c.cores
		m.tick, m.visit, m.handler, m.pass, m.movers = c.tick, c.visit, c.handler, 50e3, c.movers
		m.run(20 * time.Second)
		cost := m.run(20 * time.Second)
		testenv.Same(t, c.name, fmt.Sprintf("%.2f %% %.0f %.0f", cost, m.rate(), float64(m.b.Quota)), c.want)
	}
}

// TestBudgetBegins checks that a session does not begin with more ticks than its budget may pay for.
func TestBudgetBegins(t *testing.T) {
	for percent, most := range map[float64]float64{0.01: 12, 0.1: 100, 1: 900, 10: 2010} { // in two seconds
		m := newMachine(percent, 1000)
		m.tick, m.pass = 50_000, 50e3
		m.run(2 * time.Second)
		testenv.Within(t, fmt.Sprint(percent, " %: ticks in two seconds"), m.now.Ticks, most/4, most)
	}
}

// TestBudgetIsSteady checks that the period does not swing while costs vary from pass to pass.
func TestBudgetIsSteady(t *testing.T) {
	m := newMachine(1, 1000)
	m.tick, m.visit, m.handler, m.pass, m.movers, m.noise = 30_000, 400, 1000, 50e3, 100, 0.5
	m.run(10 * time.Second)
	least, most := m.b.Period, m.b.Period
	for range 500 {
		m.run(20 * time.Millisecond)
		least, most = min(least, m.b.Period), max(most, m.b.Period)
	}
	testenv.Within(t, "the longest period by the shortest", most/least, 1, 1.5)
}

// TestBudgetRecovers checks that ticks get rarer within a second when they become dear, and as
// frequent again when they become cheap.
func TestBudgetRecovers(t *testing.T) {
	m := newMachine(1, 1000)
	m.tick, m.handler, m.pass, m.movers = 5000, 500, 50e3, 10
	m.run(10 * time.Second)
	before := m.rate()
	m.tick = 100_000
	m.run(time.Second)
	testenv.Within(t, "cost a second after ticks became dear", m.run(3*time.Second), 0, 1.15)
	testenv.Within(t, "ticks while they are dear", m.rate(), 0, 0.3*before)
	m.tick = 5000
	m.run(5 * time.Second)
	testenv.Within(t, "ticks after that", m.rate(), 0.9*before, 1000)
}

// TestBudgetRepays checks that a session costs no more than its budget over ten seconds in which some passes
// cost far more than the others.
func TestBudgetRepays(t *testing.T) {
	m := newMachine(1, 1000)
	m.tick, m.visit, m.handler, m.pass, m.movers = 50_000, 1000, 1000, 50e3, 10
	m.run(10 * time.Second)
	least, before, from := math.Inf(1), m.b.Total, m.now.At
	for range 10 {
		m.pass = 15e6
		m.run(m.b.Every)
		m.pass = 50e3
		m.run(time.Second)
		least = min(least, m.rate())
	}
	testenv.Within(t, "cost over ten seconds", 100*float64(m.b.Total-before)/float64(m.now.At.Sub(from))/m.now.Cores, 0, 1.15)
	testenv.Within(t, "ticks a second at least", least, 10, 1000)
}

// TestTicksThatLoseTheirCore checks that visits do not cost more CPU time than the thread has used.
func TestTicksThatLoseTheirCore(t *testing.T) {
	b := NewBudget(1, 1000, Clocks{At: time.Unix(1, 0), Procs: 2, Cores: 2})
	now := Clocks{At: time.Unix(1, 0), Procs: 2, Cores: 2}
	for i := range 100 {
		now.At = now.At.Add(100 * time.Millisecond)
		now.Ticks, now.Visits = now.Ticks+10, now.Visits+100
		now.Ticker += 1e6
		now.Visiting += 25e4
		if i%10 == 9 {
			now.Visiting += 50e6 // the thread waited for a core
		}
		now.Process += 1e9
		b.Spend(now)
	}
	testenv.Within(t, "ns of a tick", b.sums.onTicks/b.sums.ticks, 70e3, 80e3)
	testenv.Within(t, "ns of a visit", b.sums.onVisits/b.sums.visits, 2400, 2600)
}

// TestCostIsNoMoreThanTheProcess checks that the session does not count more than the process used.
func TestCostIsNoMoreThanTheProcess(t *testing.T) {
	b := NewBudget(1, 1000, Clocks{At: time.Unix(1, 0), Procs: 2, Cores: 2})
	b.Spend(Clocks{At: time.Unix(2, 0), Procs: 2, Cores: 2, Process: 1e6, Ticker: 1e8, Ticks: 100, Pass: 1e6})
	testenv.Within(t, "cost", b.Total, time.Millisecond*99/100, time.Millisecond)
}

// TestPatience checks when Start gives up.
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		fallback bool
		allow    time.Duration // after 100 ms
		over     time.Duration // of CPU time
	}{
		"usual":                         {true, 0, StartLimit},
		"no other source can take over": {false, 0, onlyLimit},
		"is allowed more":               {true, StartLimit, StartLimit + 100*time.Millisecond},
		"is allowed less":               {true, 100 * time.Millisecond, StartLimit},
	} {
		synctest.Test(t, func(t *testing.T) {
			cpu := time.Minute
			p := NewPatience(func() time.Duration { return cpu }, c.fallback)
			cpu += 100 * time.Millisecond
			p.Allow(c.allow)
			cpu = time.Minute + c.over
			testenv.Same(t, name+": Start gives up", p.Over("") != nil, false)
			cpu++
			testenv.Same(t, name+": Start gives up late", p.Over("") != nil, true)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience(func() time.Duration { return 0 }, true)
		for _, waits := range []bool{true, false} {
			time.Sleep(onlyLimit / 2)
			testenv.Prints(t, "Start waits for a core", fmt.Sprint(waits, waits), p.Over("") == nil, p.Lasts())
		}
	})
}
