//go:build linux && (amd64 || arm64)

package sampler_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// load is a program whose goroutines come and go.
type load struct {
	Parked int // goroutines that wait all the time
	Rate   int // goroutines that begin in a second; they live for 0.1 to 20 ms
	Busy   bool
	cores  float64 // the process's CPU quota, 0 for none
}

// account has the time of these goroutines by their own clocks and by the profile.
type account struct {
	Lived   time.Duration // sum over all of them
	Count   int
	Stalled float64       // share of the time for which they could not begin in time
	Sampled time.Duration // sum of the weights of their samples
	Found   int           // goroutines with a sample
	Parked  time.Duration // sum of the weights of the parked ones
	Session time.Duration // from its start to the end of the load
	Stats   sampler.Stats
}

// TestAccounted compares the weights of samples with the time for which goroutines lived.
func TestAccounted(t *testing.T) {
	if how := os.Getenv("GOTACH_LOAD"); how != "" {
		var l load
		if err := json.Unmarshal([]byte(how), &l); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(l.run(t))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("account: %s\n", b)
		return
	}
	for _, l := range []load{
		{Rate: 5000},
		{Rate: 2000, Parked: 1500},
		{Rate: 5000, Parked: 10_000},
		{Rate: 5000, Busy: true},
		{Rate: 5000, cores: 0.3},
	} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			how, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			// In a process of its own, so that other tests' goroutines do not count.
			cmd := exec.Command(os.Args[0], "-test.run=^TestAccounted$")
			cmd.Env = append(os.Environ(), "GOTACH_LOAD="+string(how))
			var out []byte
			if l.cores > 0 {
				out, err = testenv.RunLimited(t, l.cores, cmd)
			} else {
				out, err = cmd.CombinedOutput()
			}
			_, text, ok := strings.Cut(string(out), "account: ")
			if err != nil || !ok {
				t.Fatalf("%v: %s", err, out)
			}
			var a account
			if err := json.NewDecoder(strings.NewReader(text)).Decode(&a); err != nil {
				t.Fatal(err)
			}
			got := float64(a.Sampled+a.Stats.NotSeen) / float64(a.Lived)
			t.Logf("%d goroutines lived for %.2f s, %d were sampled for %.2f s: %+.2f %%, not seen %.3f s; stalled for %.1f %%; %d samples at %d ticks of %d, cost %v",
				a.Count, a.Lived.Seconds(), a.Found, a.Sampled.Seconds(), 100*(got-1), a.Stats.NotSeen.Seconds(), 100*a.Stalled, a.Stats.Samples, a.Stats.TicksReached, a.Stats.TicksAsked, a.Stats.Cost)
			// When the process gets no core, ticks are late too, and find what is left after it has had one.
			// Some of the time that was not seen can be that of the parked ones.
			most := 0.04 + 2*a.Stalled
			parked := min(a.Stats.NotSeen.Seconds(), (0.01+a.Stalled)*a.Session.Seconds()*float64(l.Parked))
			if over := got - parked/a.Lived.Seconds(); got < 1-most || over > 1+most {
				t.Errorf("goroutines that lived for %v were sampled for %v, and %v were not seen", a.Lived, a.Sampled, a.Stats.NotSeen)
			}
			// With a quota the drain can be late, and most of the goroutines that began meanwhile are not known.
			if seen := float64(a.Sampled) / float64(a.Lived); l.cores == 0 && seen < 0.92-4*a.Stalled {
				t.Errorf("goroutines that lived for %v were sampled for %v", a.Lived, a.Sampled)
			}
			// Ticks begin some time after the session, which ends some time after the load.
			least, most := (0.95-2*a.Stalled)*float64(a.Session), 1.01*float64(a.Stats.Duration)
			if each := float64(a.Parked) / float64(l.Parked); l.Parked > 0 && (each < least || each > most) {
				t.Errorf("goroutines that were parked for %v to %v were sampled for %v", a.Session, a.Stats.Duration, time.Duration(each))
			}
		})
	}
}

// run runs the load for some seconds in a session.
func (l load) run(t *testing.T) (a account) {
	stop := make(chan bool)
	defer close(stop)
	for range l.Parked {
		go func() { <-stop }()
	}
	var quit atomic.Bool
	defer quit.Store(true)
	if l.Busy {
		for range runtime.GOMAXPROCS(0) {
			go func() {
				for !quit.Load() {
				}
			}()
		}
	}
	time.Sleep(50 * time.Millisecond)
	var f testenv.File
	start := time.Now()
	w, err := writer.New(&f, writer.Options{Start: uint64(start.UnixMicro()), Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	s, err := sampler.Start(sampler.Config{Source: sampler.Native, Start: start}, struct {
		*writer.Writer
		sampler.OnePart
	}{Writer: w})
	if err != nil {
		t.Fatal(err)
	}
	a.churn(l.Rate, 3*time.Second)
	quit.Store(true)
	a.Session = time.Since(start)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	a.Stats = s.Stats()
	if err := w.WriteRecords(&tachyon.Records{Goroutines: s.Part().Goroutines}); err != nil {
		t.Fatal(err)
	}
	r := testenv.Finish(t, &f, w, reader.New)
	m, err := r.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	// By its creator: a goroutine that has not begun to run does not have its function on the stack.
	times := map[uint64]*time.Duration{}
	for _, g := range m.Goroutines {
		switch {
		case strings.HasSuffix(g.CreatedBy, ".(*account).churn"):
			times[g.ID] = &a.Sampled
			a.Found++
		case strings.HasSuffix(g.CreatedBy, ".load.run"):
			times[g.ID] = &a.Parked // and those that compute
		}
	}
	for s, err := range reader.Weighted(r) {
		if err != nil {
			t.Fatal(err)
		}
		if to := times[s.Thread]; to != nil {
			*to += s.Wall()
		}
	}
	if l.Busy {
		a.Parked = 0
	}
	return a
}

// churn starts so many goroutines a second for some time, and waits until they have ended.
func (a *account) churn(rate int, d time.Duration) {
	random := rand.New(rand.NewPCG(1, 2))
	var lived atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	last, stalled := begin, time.Duration(0)
	for now := begin; now.Sub(begin) < d; now = time.Now() {
		stalled += max(0, now.Sub(last)-3*time.Millisecond)
		last = now
		for ; a.Count < int(now.Sub(begin).Seconds()*float64(rate)); a.Count++ {
			how, life := random.IntN(3), 100*time.Microsecond+time.Duration(random.Int64N(int64(19_900*time.Microsecond)))
			all.Add(1)
			born := time.Now()
			go func() {
				defer all.Done()
				liveFor(how, life)
				lived.Add(int64(time.Since(born)))
			}()
		}
		time.Sleep(300 * time.Microsecond)
	}
	all.Wait()
	a.Lived = time.Duration(lived.Load())
	a.Stalled = float64(stalled) / float64(last.Sub(begin))
}

// liveFor sleeps, waits for channels, or computes before it sleeps.
func liveFor(how int, life time.Duration) {
	switch how {
	case 0:
		time.Sleep(life)
	case 1:
		for range 3 {
			<-time.After(life / 3)
		}
	case 2:
		end := time.Now().Add(life)
		for until := time.Now().Add(min(life, 60*time.Microsecond)); time.Now().Before(until); {
		}
		time.Sleep(time.Until(end))
	}
}
