package report

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Each analysis says of each session what it said when somebody looked at it last. The other tests of sessions compare the
// same with what the programs say of themselves.
func TestSessions(t *testing.T) {
	testenv.Again(t)
	files := testenv.Files(t, "../testdata/sessions/*.tach", 20)
	for _, path := range files[:testenv.Brief(4, len(files))] {
		name := strings.TrimSuffix(filepath.Base(path), ".tach")
		t.Run(name, func(t *testing.T) {
			s := analyzetest.OpenSession(t, filepath.Dir(path), name)
			testenv.Golden(t, s.Path+".findings", findings(t, s), *analyzetest.Update)
		})
	}
}

// findings returns what the analyses say of a session, a finding in a line.
func findings(t *testing.T, s *analyzetest.Session) string {
	t.Helper()
	out := &bytes.Buffer{}
	print := func(kind string, finding any) { analyzetest.PrintFinding(t, out, kind, finding) }
	o := locks.Options{Channels: true, Source: analyzetest.SourceOfSessions}
	blocked := testenv.Must(locks.Find(s.Samples(t), o))
	lists := []*locks.Locks{blocked}
	if group := blocked.Group(); len(group.Locks) < len(blocked.Locks) {
		lists = append(lists, group)
	}
	for _, list := range lists {
		for i := range list.Locks {
			if h := list.Locks[i].Holder; h != nil {
				h.Stacks = h.Stacks[:min(2, len(h.Stacks))]
			}
			print("lock", list.Locks[i])
		}
		list.Locks = nil
	}
	print("locks", blocked)
	waits := testenv.Must(locks.FindWaits(s.Samples(t), locks.WaitOptions{Func: regexp.MustCompile(`^main\.`), Options: o}))
	for _, n := range waits.Chains[:min(4, len(waits.Chains))] {
		print("wait", n)
	}
	waits.Chains = nil
	print("waits", waits)
	served := testenv.Must(requests.Find(s.Samples(t), requests.Options{Source: analyzetest.SourceOfSessions, Slowest: analyzetest.Slowest}))
	print("requests", served)
	for _, o := range []Options{{Weight: "latency"}, {Weight: "cpu", Idle: true}} {
		report, _ := reportOf(t, s.Samples(t).Source, o, profile.ReportOptions{Top: 6})
		print("by "+o.Weight, report)
		testenv.FailIf(t, o.Weight == "latency" && !analyzetest.Near(report.Total, report.Duration, 0.0001, report.Duration), "a latency of %v in %v", report.Total, report.Duration)
	}
	survey := testenv.Must(NewSurvey(s.Samples(t).Source, Options{Series: true}, nil))
	print("idle", survey.Profile.Idle)
	for _, g := range survey.Leaks.Groups {
		print("leak", g)
	}
	for _, by := range []profile.By{profile.ByBlocked, profile.ByFunction, profile.ByState} {
		for _, row := range testenv.Must(profile.New(survey.Profile, profile.ReportOptions{By: by, Top: 6})).Rows {
			print("row", row)
			print("series", row.Series[:min(8, len(row.Series))])
		}
	}
	return out.String()
}

// liveLock is a lock that a goroutine holds for long, while another one waits for it again and again.
type liveLock struct{ mu sync.Mutex }

func (l *liveLock) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
}

func (l *liveLock) await() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

func liveRequest() { time.Sleep(5 * time.Millisecond) }

func liveLeak(never chan int) { <-never }

// Each analysis finds what it is for in a session of the present profiler. How exactly is known from recorded sessions. The
// session runs until all has been found.
func TestFindingsOfProgram(t *testing.T) {
	testenv.Long(t)
	path := filepath.Join(t.TempDir(), "x.tach")
	session := testenv.Must(profiler.Open(profiler.Output(path), profiler.Budget(100)))
	defer session.Stop()
	stop, never := make(chan struct{}), make(chan int)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(never)
	defer close(stop)
	l := &liveLock{}
	for _, do := range []func(){
		l.hold, l.await,
		func() { liveRequest(); time.Sleep(time.Millisecond) },
		func() { all.Go(func() { liveLeak(never) }); time.Sleep(50 * time.Millisecond) },
	} {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	const pkg = "github.com/gotach/profiler/internal/analyze/report."
	missing := ""
	testenv.Await(func() bool {
		f, err := reader.Open(path)
		if err != nil {
			missing = err.Error()
			return false
		}
		defer f.Close()
		samples := func() *analyze.Samples {
			return analyzetest.SamplesOf(t, stream.Options{Labels: true, Objects: true}, f)
		}
		// What takes longest comes first. The rest is not looked for before it.
		if !slices.ContainsFunc(testenv.Must(leaks.Find(samples())).Groups, func(g leaks.Group) bool {
			return g.Function == pkg+"liveLeak" && g.Suspect && g.Reason == "chan receive"
		}) {
			missing = "the leak"
			return false
		}
		// The portable source does not know for which lock a goroutine waits, nor does the native one with Go 1.25.
		m := testenv.Must(f.Metadata()).Session
		knowsObjects := m != nil && m.Objects == tachyon.AllObjects
		blocked := testenv.Must(locks.Find(samples(), locks.Options{}))
		served := testenv.Must(requests.Find(samples(), requests.Options{Func: regexp.MustCompile(`report\.liveRequest$`)}))
		waits := testenv.Must(locks.FindWaits(samples(), locks.WaitOptions{Func: regexp.MustCompile(`\(\*liveLock\)\.await$`)}))
		missing = ""
		if i := slices.IndexFunc(blocked.Locks, func(x locks.Lock) bool { return x.IsLock() && x.Sites[0].Func == pkg+"(*liveLock).await" }); i < 0 {
			missing = "the lock"
		} else if h := blocked.Locks[i].Holder; knowsObjects && (h == nil || len(h.Lines) == 0 || h.Lines[0].Func != pkg+"(*liveLock).hold") {
			missing = "who holds the lock"
		} else if served.Count < 5 {
			missing = "requests"
		} else if !slices.ContainsFunc(waits.Chains, func(n locks.WaitNode) bool { return n.State == "sync.Mutex.Lock" && n.Time > 0 }) {
			missing = "the wait for the lock"
		}
		return missing == ""
	})
	testenv.Same(t, "what is not found", missing, "")
}
