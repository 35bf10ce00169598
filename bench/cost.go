package main

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/tachyon"
)

// A CostSetting says what a process of the cost measurement measures.
type CostSetting struct {
	Goroutines int // waiting goroutines beside the load; 0: an idle server instead
	Rate       int
	Budget     float64
	Pairs      int
	Window     time.Duration
	Settle     time.Duration
	Load       float64 // share of each core that the load uses
}

// A costRow is the result. Costs are shares of the machine, or of one core for the server.
type costRow struct {
	CostSetting
	Outside  [3]float64 // ends of the interval around the median, and the median in between
	Beside   [3]float64 // the same without the CPU time of the load's own work
	Own      float64    // as the session counts it
	Alone    float64    // used without a session, median
	Reached  float64    // ticks, as a share of those asked for
	Rarer    float64    // ticks left out for the budget, as a share of those asked for
	Idle     float64    // ticks left out because nothing ran, as a share of those asked for
	Gap      [2]float64 // s: p50, p99
	StartEnd float64    // CPU time of Start and Stop together, s, median
}

// measureCost measures in its own process, because it leaves goroutines running.
func measureCost(s CostSetting) (costRow, error) {
	r := costRow{CostSetting: s}
	cores, work := 1.0, func() (own float64) { time.Sleep(s.Window); return 0 }
	if s.Goroutines == 0 {
		if err := serve(50); err != nil {
			return r, err
		}
	} else {
		awake := min(s.Goroutines/2, max(5, min(s.Goroutines/10, 1000)))
		if err := park(s.Goroutines - awake); err != nil {
			return r, err
		}
		wakeRegularly(awake, 100*time.Millisecond)
		cores, work = float64(runtime.GOMAXPROCS(0)), partLoad(s.Load, s.Window)
	}
	window := func() (all, beside float64) {
		cpu, begin := allCPU(), time.Now()
		own := work()
		cpu = allCPU() - cpu
		took := float64(time.Since(begin)) * cores
		return float64(cpu) / took, (float64(cpu) - own) / took
	}
	var extra, beside, own, alone, startEnd, gaps []float64
	var ticks tachyon.Counts
	window() // the first one is slower
	for i := range s.Pairs {
		// Half of the pairs begin with the session, so that a trend cancels out.
		var without, besideWithout float64
		if i%2 == 0 {
			without, besideWithout = r.quiet(window)
		}
		runtime.GC()
		cpu := allCPU()
		p, err := r.open()
		if err != nil {
			return r, err
		}
		startCPU := allCPU() - cpu
		time.Sleep(s.Settle)
		before, from := p.Stats(), time.Now()
		with, besideWith := window()
		after, to := p.Stats(), time.Now()
		cpu = allCPU()
		err = p.Stop()
		startEnd = append(startEnd, (startCPU + allCPU() - cpu).Seconds())
		if err != nil {
			return r, err
		}
		t, err := readTrace(p.Path())
		os.RemoveAll(filepath.Dir(p.Path()))
		if err != nil {
			return r, err
		}
		if i%2 == 1 {
			without, besideWithout = r.quiet(window)
		}
		in := t.within(from, to)
		for i := range in.ticks[min(1, len(in.ticks)):] {
			gaps = append(gaps, in.ticks[i+1].Sub(in.ticks[i]).Seconds())
		}
		extra, alone = append(extra, with-without), append(alone, without)
		beside = append(beside, besideWith-besideWithout)
		counts := tachyon.Counts{
			Cost:       after.Cost - before.Cost,
			TicksAsked: after.TicksAsked - before.TicksAsked, TicksReached: after.TicksReached - before.TicksReached,
			TicksForBudget: after.TicksForBudget - before.TicksForBudget, TicksIdle: after.TicksIdle - before.TicksIdle,
		}
		own = append(own, float64(counts.Cost)/float64(to.Sub(from))/cores)
		ticks = ticks.Plus(counts)
	}
	r.Outside, r.Beside = medianInterval(extra), medianInterval(beside)
	r.Own, r.Alone, r.StartEnd = quantile(own, 0.5), quantile(alone, 0.5), quantile(startEnd, 0.5)
	asked := float64(ticks.TicksAsked)
	r.Reached = float64(ticks.TicksReached) / asked
	r.Rarer, r.Idle = float64(ticks.TicksForBudget)/asked, float64(ticks.TicksIdle)/asked
	r.Gap = [2]float64{quantile(gaps, 0.5), quantile(gaps, 0.99)}
	return r, nil
}

// quiet measures a window without a session.
func (r *costRow) quiet(window func() (all, beside float64)) (all, beside float64) {
	runtime.GC()
	time.Sleep(r.Settle / 4)
	return window()
}

// open starts a session as users do.
func (r *costRow) open() (*profiler.Session, error) {
	dir, err := os.MkdirTemp("", "gotach-bench-")
	if err != nil {
		return nil, err
	}
	p, err := profiler.Open(profiler.Output(filepath.Join(dir, "bench.tach")), profiler.Source("native"), profiler.Rate(r.Rate), profiler.Budget(r.Budget))
	if err != nil {
		os.RemoveAll(dir)
	}
	return p, err
}

// partLoad returns a function that keeps a share of every core busy for about d. Each call does
// the same work. It returns the CPU time of that work, in ns.
func partLoad(share float64, d time.Duration) func() float64 {
	const every = 10 * time.Millisecond
	n := runtime.GOMAXPROCS(0)
	begin := make(chan time.Time)
	done := make(chan float64)
	rate, agreed := make(chan float64), make(chan float64)
	for range n {
		go func() {
			block := blocks()
			most := 0.0
			for range 100 {
				from := time.Now()
				for range 20 {
					block()
				}
				most = max(most, 20/time.Since(from).Seconds())
			}
			rate <- most
			perTurn := int(<-agreed * share * every.Seconds())
			for next := range begin {
				own := 0.0
				for range int(d / every) {
					own += onThread(func() {
						for range perTurn {
							block()
						}
					})
					next = next.Add(every)
					time.Sleep(time.Until(next))
				}
				done <- own
			}
		}()
	}
	fastest := 0.0
	for range n {
		fastest = max(fastest, <-rate)
	}
	for range n {
		agreed <- fastest
	}
	return func() (own float64) {
		now := time.Now()
		for range n {
			begin <- now
		}
		for range n {
			own += <-done
		}
		return own
	}
}

// onThread calls f and returns the CPU time of its thread, in ns.
func onThread(f func()) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := ownThreadCPU()
	f()
	return float64(ownThreadCPU() - begin)
}

// wakeRegularly starts n goroutines that wake up after each period, at different times.
func wakeRegularly(n int, period time.Duration) {
	for i := range n {
		go left(13+i%6, i, func() {
			time.Sleep(period * time.Duration(i) / time.Duration(n))
			t := time.NewTicker(period)
			for range t.C {
			}
		})
	}
}

// serve starts an HTTP server with n connections that have had one request each and stay open.
func serve(n int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(l, http.NotFoundHandler())
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		open = append(open, c)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return err
		}
	}
	time.Sleep(100 * time.Millisecond)
	return nil
}

var open []net.Conn // keeps the connections open

// medianInterval returns the median of v and the ends of an interval around it that has the true
// median with a probability of at least 95 %, whatever the distribution.
func medianInterval(v []float64) [3]float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	// The rank of the true median is binomial.
	low, below, p := 0, 0.0, math.Pow(0.5, float64(n))
	for k := 0; k < n/2; k++ {
		if below += p; below > 0.025 {
			break
		}
		low = k + 1
		p *= float64(n-k) / float64(k+1)
	}
	if low == 0 {
		return [3]float64{math.NaN(), quantile(v, 0.5), math.NaN()} // too few for an interval
	}
	return [3]float64{v[low-1], quantile(v, 0.5), v[n-low]}
}

// costs measures all rows and writes the table to out.
func costs(out, progress io.Writer, counts string, s CostSetting) error {
	var rows []costRow
	for _, count := range strings.Split(counts, ",") {
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 {
			return fmt.Errorf("-goroutines: %q is not a number", count)
		}
		s.Goroutines = n
		fmt.Fprintf(progress, "%d goroutines …", n)
		begin := time.Now()
		var r costRow
		if err := child(s, "cost", &r); err != nil {
			return fmt.Errorf("%d goroutines: %w", n, err)
		}
		fmt.Fprintf(progress, " %v\n", time.Since(begin).Round(time.Second))
		rows = append(rows, r)
	}
	_, err := io.WriteString(out, costTable(rows))
	return err
}

var costHeader = []string{"goroutines", "budget", "cost from outside", "95 % interval", "beside the load", "95 % interval", "its own figure", "without a session", "ticks reached", "left out for the budget", "left out while idle", "gap p50", "gap p99", "Start and Stop"}

func costTable(rows []costRow) string {
	var b strings.Builder
	if len(rows) > 0 {
		r := rows[0]
		fmt.Fprintf(&b, "%s %s/%s, %d CPUs; medians of %d pairs of %v, %d Hz asked, load %.0f %% of each core.\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), r.Pairs, r.Window, r.Rate, 100*r.Load)
	}
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(costHeader)
	b.WriteString("|---" + strings.Repeat("|--:", len(costHeader)-1) + "|\n")
	for _, r := range rows {
		line(r.cells())
	}
	return b.String()
}

func (r *costRow) cells() []string {
	name, of := thousands(float64(r.Goroutines)), ""
	if r.Goroutines == 0 {
		name, of = "idle server", " of a core"
	}
	percent := func(v float64) string { return number("%.2f %%", 100*v) }
	return []string{
		name, fmt.Sprintf("%g %%", r.Budget),
		percent(r.Outside[1]) + of, number("%.2f", 100*r.Outside[0]) + "…" + number("%.2f", 100*r.Outside[2]),
		percent(r.Beside[1]), number("%.2f", 100*r.Beside[0]) + "…" + number("%.2f", 100*r.Beside[2]),
		percent(r.Own), percent(r.Alone),
		number("%.1f %%", 100*r.Reached), number("%.1f %%", 100*r.Rarer), number("%.1f %%", 100*r.Idle),
		seconds(r.Gap[0]), seconds(r.Gap[1]), seconds(r.StartEnd),
	}
}
