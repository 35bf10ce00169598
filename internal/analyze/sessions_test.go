package analyze

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// A session is a recording of a program in testdata/record, and what the program says of itself. See testdata/README.md.
type session struct {
	name, path string
	file       *reader.Reader
	truth      truth
}

// A truth is what a program says of itself. Times are in µs.
type truth struct {
	Begin    int64
	Holds    map[string][]hold // by the lock's address
	Requests [][2]int64        // how long each took, and what of that was in the longer path
	Leaked   int
	Waited   int64 // time in what was planted
}

// A hold is a goroutine and the time from when until when it held a lock.
type hold [3]int64

// openSession opens a session in a folder.
func openSession(t testing.TB, dir, name string) *session {
	t.Helper()
	s := &session{name: name, path: filepath.Join(dir, name)}
	var err error
	if s.file, err = reader.Open(s.path + ".tach"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.file.Close() })
	f := must(os.Open(s.path + ".log.gz"))(t)
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&s.truth)
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(s.truth.Requests, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return s
}

// samples returns the samples of the session with all that analyses ask for.
func (s *session) samples(t testing.TB) *Samples {
	t.Helper()
	return samplesOf(t, stream.Options{Labels: true, Objects: true}, s.file)
}

// sourceOfSessions reads the text of the programs, whose paths in sessions are those of -trimpath.
func sourceOfSessions(name string) *source.File {
	text, err := os.ReadFile(filepath.Join("testdata/record", strings.TrimPrefix(name, programs)))
	if err != nil {
		return nil
	}
	return &source.File{Text: text}
}

const programs = "github.com/gotach/profiler/internal/analyze/testdata/record/"

// Each analysis says of each session what it said when somebody looked at it last. The other tests of sessions compare the
// same with what the programs say of themselves.
func TestSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/sessions/*.tach")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d sessions, %v", len(files), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".tach")
		t.Run(name, func(t *testing.T) {
			s := openSession(t, filepath.Dir(path), name)
			testenv.Golden(t, s.path+".findings", s.findings(t), *update)
		})
	}
}

// manyDigits are numbers whose last digits are not the same on all processors.
var manyDigits = regexp.MustCompile(`(\.\d{4})\d+`)

// findings returns what the analyses say of a session, a finding in a line.
func (s *session) findings(t *testing.T) string {
	t.Helper()
	out := &bytes.Buffer{}
	print := func(kind string, finding any) { printFinding(t, out, kind, finding) }
	o := LockOptions{Channels: true, Source: sourceOfSessions}
	locks := must(FindLocks(s.samples(t), o))(t)
	lists := []*Locks{locks}
	if group := locks.Group(); len(group.Locks) < len(locks.Locks) {
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
	print("locks", locks)
	waits := must(FindWaits(s.samples(t), WaitOptions{Func: regexp.MustCompile(`^main\.`), LockOptions: o}))(t)
	for _, n := range waits.Chains[:min(4, len(waits.Chains))] {
		print("wait", n)
	}
	waits.Chains = nil
	print("waits", waits)
	requests := must(FindRequests(s.samples(t), RequestOptions{Source: sourceOfSessions, Slowest: slowest}))(t)
	print("requests", requests)
	for _, o := range []ReportOptions{{Weight: "latency"}, {Weight: "cpu", Idle: true}} {
		report, _ := reportOf(t, s.samples(t).src, o, profile.ReportOptions{Top: 6})
		print("by "+o.Weight, report)
		if o.Weight == "latency" && !near(report.Total, report.Duration, 0.0001, report.Duration) {
			t.Errorf("the latency is %v in all, the session lasted %v", report.Total, report.Duration)
		}
	}
	survey := must(NewSurvey(s.samples(t).src, ReportOptions{Series: true}, nil))(t)
	print("idle", survey.Profile.Idle)
	for _, g := range survey.Leaks.Groups {
		print("leak", g)
	}
	for _, by := range []profile.By{profile.ByBlocked, profile.ByFunction, profile.ByState} {
		for _, row := range must(profile.New(survey.Profile, profile.ReportOptions{By: by, Top: 6}))(t).Rows {
			print("row", row)
			print("series", row.Series[:min(8, len(row.Series))])
		}
	}
	return out.String()
}

func printFinding(t *testing.T, out io.Writer, kind string, finding any) {
	t.Helper()
	b := must(json.Marshal(finding))(t)
	fmt.Fprintf(out, "%s %s\n", kind, bytes.ReplaceAll(manyDigits.ReplaceAll(b, []byte("$1")), []byte(programs), nil))
}

// must returns what there is if there is no error.
func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// Whom a profile shows as the holder of a lock, or of a place in a channel, is who the program's log says it was. Without
// source the lines between Lock and Unlock are a guess. Holds of up to a tick are said to be too short to tell.
func TestHoldersOfSessions(t *testing.T) {
	var text strings.Builder
	for _, c := range []struct {
		name     string
		channels bool
		role     string
	}{
		{"sleeps", false, RoleHolds},
		{"computes", false, RoleHolds},
		{"computes-shortly", false, RoleHolds},
		{"refresher", false, RoleHolds},
		{"two-of-one-type", false, RoleHolds},
		{"slow-reader", false, RoleHolds},
		{"nested", false, RoleHolds},
		{"leaky-server", false, RoleHolds},
		{"places", true, RoleHolds},
		{"places-in-select", true, RoleHolds},
		{"places-wrapped", true, RoleHolds},
		{"places-of-goroutines", true, RoleHolds},
		{"rendezvous", true, RoleOtherSide},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openSession(t, "testdata/sessions", c.name)
			got, most := s.compareHolders(t, LockOptions{Channels: c.channels, Source: sourceOfSessions})
			fmt.Fprintf(&text, "%s %+v", c.name, got)
			if got.right < 19*got.wrong && c.name != "computes-shortly" || got.right < 5*got.wrong || got.unknown > got.all()/10 {
				t.Errorf("holders %+v", got)
			}
			if h := most.Holder; h.Role != c.role || h.TooShort != strings.HasPrefix(c.name, "computes") {
				t.Errorf("role %s, too short: %v", h.Role, h.TooShort)
			}
			if c.channels { // are like locks only where the source says so
				text.WriteByte('\n')
				return
			}
			got, _ = s.compareHolders(t, LockOptions{})
			fmt.Fprintf(&text, ", without source %+v\n", got)
			if got.right < 5*got.wrong {
				t.Errorf("without source %+v", got)
			}
		})
	}
	testenv.Golden(t, "testdata/sessions/holders.txt", text.String(), *update)
}

// holderCounts counts the ticks at which goroutines waited for a lock.
type holderCounts struct{ right, wrong, unknown int }

func (c holderCounts) all() int { return c.right + c.wrong + c.unknown }

// compareHolders compares the holders that a profile shows with the log. It returns the lock with the longest waits.
func (s *session) compareHolders(t testing.TB, o LockOptions) (out holderCounts, most Lock) {
	t.Helper()
	shift := int64(s.file.Header().Start) - s.truth.Begin
	ticks := ticksOfFile(t, s.file)
	l := newLockSums(samplesOf(t, stream.Options{Objects: true}, s.file), o)
	l.onCharge = func(c *charge) {
		if o.Channels != isChannel(l.sums[c.object].kind) {
			return
		}
		from, _ := slices.BinarySearch(ticks, c.from+1)
		to, _ := slices.BinarySearch(ticks, c.to+1)
		for _, at := range ticks[from:to] {
			held := false
			for lock, list := range s.truth.Holds {
				// A wait of one goroutine only may have no number.
				if c.object < 0 || fmt.Sprintf("0x%x", l.objects[c.object].Addr) == lock || l.sums[c.object].kind == tachyon.ObjectSelect {
					held = held || heldAt(list, int64(c.goroutine), int64(at)+shift)
				}
			}
			switch {
			case c.how == unknown:
				out.unknown++
			case held:
				out.right++
			default:
				out.wrong++
			}
		}
	}
	if err := cmp.Or(l.read(), l.holders()); err != nil {
		t.Fatal(err)
	}
	for _, x := range l.result().Locks {
		if h := x.Holder; h != nil && h.Seen+h.Inferred+h.Unknown != x.Waited {
			t.Errorf("%s waited %v: seen %v, inferred %v, unknown %v", x.Name, x.Waited, h.Seen, h.Inferred, h.Unknown)
		}
		if x.Waited > most.Waited && x.IsLock() != o.Channels && x.Holder != nil {
			most = x
		}
	}
	if most.Holder == nil {
		t.Fatal("no goroutine waited for a lock with a holder")
	}
	return out, most
}

// ticksOfFile returns the times of the ticks, in µs since the start: those at which several goroutines
// have samples.
func ticksOfFile(t testing.TB, f *reader.Reader) (list []uint64) {
	count := map[uint64]int{}
	for s := range each(t, f.Samples()) {
		count[s.Time-f.Header().Start]++
	}
	for at, n := range count {
		if n >= 3 {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return list
}

// heldAt reports whether a goroutine held the lock at a time, or between the holds before and after.
func heldAt(list []hold, goroutine, at int64) bool {
	const slack = 150 // µs
	for i, h := range list {
		if h[0] != goroutine {
			continue
		}
		from, to := h[1], h[2]
		if i > 0 {
			from = min(from, list[i-1][2])
		}
		if i+1 < len(list) {
			to = max(to, min(list[i+1][1], to+5000))
		}
		if from-slack <= at && at <= to+slack {
			return true
		}
	}
	return false
}

// logged returns a quantile of the lengths of requests by the log.
func (s *session) logged(q float64) time.Duration {
	return micros(uint64(s.truth.Requests[int(q*float64(len(s.truth.Requests)-1))][0]))
}

// slowest is the share of requests that are slow here. On a busy machine others than those of the longer path
// are slow too.
const slowest = 0.03

// The lengths of requests are those of the server's log, and what the slow ones do more is the longer path.
func TestRequestsOfSessions(t *testing.T) {
	for _, name := range []string{"requests", "requests-default-budget", "requests-short", "leaky-server"} {
		t.Run(name, func(t *testing.T) {
			s := openSession(t, "testdata/sessions", name)
			r := must(FindRequests(s.samples(t), RequestOptions{Slowest: slowest}))(t)
			for _, p := range []struct {
				q   float64
				got time.Duration
			}{{0.5, r.P50}, {0.9, r.P90}, {0.99, r.P99}} {
				want := s.logged(p.q)
				if (p.got-want).Abs() > max(2*time.Millisecond, want/20) && p.got > r.Short {
					t.Errorf("p%v is %v, the log says %v", 100*p.q, p.got, want)
				}
			}
			if n := len(s.truth.Requests); 10*max(r.Estimated-n, n-r.Estimated) > n {
				t.Errorf("about %d requests, the log has %d", r.Estimated, n)
			}
			// Requests follow at once. They are told apart, and so are calls of a function in them.
			handler := RequestOptions{Func: regexp.MustCompile(`^main\.(serve|leakyServer)\.func2$`)}
			if calls := must(FindRequests(s.samples(t), handler))(t); calls.Lower != nil || 20*max(calls.Count-r.Count, r.Count-calls.Count) > r.Count {
				t.Errorf("%d calls of the handler, %d requests; %+v", calls.Count, r.Count, calls.Lower)
			}
			list, _ := readFinder(t, s.samples(t))
			wrong := 0
			for _, x := range list {
				if int64(x.after-x.before) < s.truth.Requests[0][0] {
					wrong++
				}
			}
			if 100*wrong > len(list) {
				t.Errorf("%d of %d requests take less than the shortest one", wrong, len(list))
			}
			if d := r.Difference; name != "leaky-server" && (d[0].Name != "main.longPath" || d[0].State != "sleep") {
				t.Errorf("the first difference is %+v", d)
			}
		})
	}
}

// What a program does more than in the run before is found: 2 % of a core, and 5 ms in each job. Two runs of one program
// do not differ.
func TestDiffOfSessions(t *testing.T) {
	open := func(name string) (*Samples, *session) {
		s := openSession(t, "testdata/sessions", name)
		return s.samples(t), s
	}
	before, _ := open("before")
	again, _ := open("again")
	after, s := open("after")
	if names := significant(diff(t, before, again, DiffOptions{})); len(names) > 0 {
		t.Errorf("two runs of one program differ: %q", names)
	}
	for _, r := range diff(t, after, before, DiffOptions{Per: "share", By: "total"}).Rows {
		if r.Name == "main.plantedRetry" && (!r.Significant || r.B != 0 || math.Abs(r.A*6/1.5-1) > 0.1) {
			t.Errorf("the other way round, by share of 6 goroutines: %+v", r)
		}
	}
	d := diff(t, before, after, DiffOptions{})
	rows, text := map[string]DiffRow{}, &bytes.Buffer{}
	for _, r := range d.Rows {
		rows[r.Name] = r
		printFinding(t, text, "row", r)
	}
	testenv.Golden(t, "testdata/sessions/diff.findings", text.String(), *update)
	if work := rows["main.plantedWork"]; work.A != 0 || !work.Significant || math.Abs(work.Delta-0.02) > 0.005 {
		t.Errorf("the 2 %% are %+v", work)
	}
	want := float64(s.truth.Waited) / float64(d.Length[1].Microseconds())
	if retry := rows["[sleep] main.plantedRetry"]; retry.A != 0 || !retry.Significant || math.Abs(retry.Delta-want) > want/50 {
		t.Errorf("the wait is %+v, the log says %.3f more", retry, want)
	}
}

// The one suspect is the leak, with all of its goroutines.
func TestLeaksOfSession(t *testing.T) {
	for name, function := range map[string]string{"leaks": "main.leakyReply", "leaky-server": "main.leakedByRequest"} {
		s := openSession(t, "testdata/sessions", name)
		leaked := cmp.Or(s.truth.Leaked, len(s.truth.Requests))
		for i, g := range must(FindLeaks(s.samples(t)))(t).Groups {
			if g.Suspect != (i == 0) || g.Suspect != (g.Function == function) {
				t.Errorf("%s: group %d is %+v", name, i, g)
			}
			if i == 0 && (g.RanAgain != 0 || g.Reason != "chan receive" || g.End > leaked || g.End < leaked-4) {
				t.Errorf("%s: %d goroutines leak: %+v", name, leaked, g)
			}
		}
	}
}

// A goroutine waits for three others, of which one takes longer because of a lock.
func TestWaitsOfSession(t *testing.T) {
	s := openSession(t, "testdata/sessions", "fan-out")
	w := must(FindWaits(s.samples(t), WaitOptions{Func: regexp.MustCompile(`\.fanOut$`), LockOptions: LockOptions{Source: sourceOfSessions}}))(t)
	i := slices.IndexFunc(w.Chains, func(n WaitNode) bool { return n.State == "sync.WaitGroup.Wait" })
	if i < 0 {
		t.Fatalf("no wait for a group: %+v", w)
	}
	n := w.Chains[i]
	var known, behind, held time.Duration // behind: the last child waited for the lock
	for _, child := range n.Next {
		known += child.Time
		if child.State == "sync.Mutex.Lock" {
			behind += child.Time
			for _, h := range child.Next {
				if h.State == "sleep" && h.Func == "main.(*store).load" {
					held += h.Time
				}
			}
		}
	}
	if !near(n.Time, micros(uint64(s.truth.Waited)), 0.01, n.Time) || 10*known < 9*n.Time || 2*behind < n.Time || 10*held < 9*behind {
		t.Errorf("waited %v, by its own clock %d µs; known %v, behind the lock %v, held by the other goroutine %v", n.Time, s.truth.Waited, known, behind, held)
	}
}
