package locks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// Whom a profile shows as the holder of a lock, or of a place in a channel, is who the program's log says it was. Without
// source the lines between Lock and Unlock are a guess. Holds of up to a tick are said to be too short to tell.
func TestHoldersOfSessions(t *testing.T) {
	var text strings.Builder
	for _, name := range strings.Fields("sleeps computes computes-shortly refresher two-of-one-type slow-reader nested leaky-server places places-in-select places-wrapped places-of-goroutines rendezvous") {
		t.Run(name, func(t *testing.T) {
			channels, role := strings.HasPrefix(name, "places"), RoleHolds
			if name == "rendezvous" {
				channels, role = true, RoleOtherSide
			}
			s := analyzetest.OpenSession(t, "../testdata/sessions", name)
			got, most := compareHolders(t, s, Options{Channels: channels, Source: analyzetest.SourceOfSessions})
			fmt.Fprintf(&text, "%s %+v", name, got)
			if got.right < 19*got.wrong && name != "computes-shortly" || got.right < 5*got.wrong || got.unknown > got.all()/10 {
				t.Errorf("holders %+v", got)
			}
			testenv.Same(t, "role, too short", fmt.Sprint(most.Holder.Role, most.Holder.TooShort), fmt.Sprint(role, strings.HasPrefix(name, "computes")))
			if channels { // are like locks only where the source says so
				text.WriteByte('\n')
				return
			}
			got, _ = compareHolders(t, s, Options{})
			fmt.Fprintf(&text, ", without source %+v\n", got)
			if got.right < 5*got.wrong {
				t.Errorf("without source %+v", got)
			}
		})
	}
	testenv.Golden(t, "../testdata/sessions/holders.txt", text.String(), *analyzetest.Update)
}

// holderCounts counts the ticks at which goroutines waited for a lock.
type holderCounts struct{ right, wrong, unknown int }

func (c holderCounts) all() int { return c.right + c.wrong + c.unknown }

// compareHolders compares the holders that a profile shows with the log. It returns the lock with the longest waits.
func compareHolders(t testing.TB, s *analyzetest.Session, o Options) (out holderCounts, most Lock) {
	t.Helper()
	shift := int64(s.File.Header().Start) - s.Truth.Begin
	ticks := ticksOfFile(t, s.File)
	l := newLockSums(analyzetest.SamplesOf(t, stream.Options{Objects: true}, s.File), o)
	l.onCharge = func(c *charge) {
		if o.Channels != isChannel(l.sums[c.object].kind) {
			return
		}
		from, _ := slices.BinarySearch(ticks, c.from+1)
		to, _ := slices.BinarySearch(ticks, c.to+1)
		for _, at := range ticks[from:to] {
			held := false
			for lock, list := range s.Truth.Holds {
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
	testenv.OK(t, cmp.Or(l.read(), l.holders()))
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
	for s := range testenv.All(t, f.Samples()) {
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
func heldAt(list []analyzetest.Hold, goroutine, at int64) bool {
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

// A goroutine waits for three others, of which one takes longer because of a lock.
func TestWaitsOfSession(t *testing.T) {
	s := analyzetest.OpenSession(t, "../testdata/sessions", "fan-out")
	w := testenv.Must(FindWaits(s.Samples(t), WaitOptions{Func: regexp.MustCompile(`\.fanOut$`), Options: Options{Source: analyzetest.SourceOfSessions}}))
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
	if !analyzetest.Near(n.Time, analyze.Micros(uint64(s.Truth.Waited)), 0.01, n.Time) || 10*known < 9*n.Time || 2*behind < n.Time || 10*held < 9*behind {
		t.Errorf("waited %v, by its own clock %d µs; known %v, behind the lock %v, held by the other goroutine %v", n.Time, s.Truth.Waited, known, behind, held)
	}
}

// BenchmarkLocks reads a session in which goroutines wait for locks and hold others meanwhile.
func BenchmarkLocks(b *testing.B) {
	s := analyzetest.OpenSession(b, "../testdata/sessions", "nested")
	o := Options{Source: analyzetest.SourceOfSessions}
	for name, find := range map[string]func(*analyze.Samples) error{
		"locks": func(s *analyze.Samples) error { _, err := Find(s, o); return err },
		"waits": func(s *analyze.Samples) error {
			_, err := FindWaits(s, WaitOptions{Func: regexp.MustCompile(`^main\.`), Options: o})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				testenv.OK(b, find(analyzetest.SamplesOf(b, stream.Options{Objects: true}, s.File)))
			}
		})
	}
}
