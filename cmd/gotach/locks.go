package main

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
	"github.com/spf13/cobra"
)

func newLocks(e *env) *cobra.Command {
	var o formats.Options
	var asJSON, each bool
	var top int
	var choice selectFlags
	var sources sourceFlags
	cmd := &cobra.Command{
		Use:   "locks FILE...",
		Short: "Show which locks goroutines waited for, and what their holders did",
		Long: `Show which locks goroutines waited for, where and how long, and what the holders did meanwhile; then
the same for channels, WaitGroups and Conds. WAITED is the time of all goroutines together, LONGEST the
longest wait, WAITS the number of waits. Waits shorter than two ticks are counted by how often
their goroutines stopped running, if they stopped for one lock only. Else ≥ means that there may have
been more waits, and < that all were shorter.

A Mutex does not know its holder. gotach finds it from where goroutines were: between Lock and Unlock
in the source if that is read (see --source), else after the line that was seen locking. Each line says
how certain that is:
  seen      the holder was seen waiting for the same lock just before
  inferred  no other goroutine could have held it
  unknown   the rest
Of holds shorter than two ticks only the sum is known.

A channel counts as a lock if the source uses it as a semaphore: takes a place and gives it back. For
other channels the other side is shown: goroutines that could send or receive, seen if they
waited for the same channel, inferred if they are in a function that uses it. Several share the time
equally.

A lock is named by its variable, or by the source line that locks it if the source is read, or by the
function, and by its type or function if names are equal. Locks of one name have numbers. Three or more alike, waited for mostly at one line,
such as those of connections, are one row; --each and --json show each.

Which lock a goroutine waits for is known if the program was built with Go 1.26 or later, the native
source sampled it, and two goroutines waited for the lock. Other waits are added up by line.
Left out are idle waits, the runtime's own, and waits for an answer, which gotach waits shows.

` + sourceHelp + `

` + selectHelp + `
Here they select the waits that count. Any goroutine can be the holder.`,
		Example: `  gotach locks app.tach
  gotach locks app.*.tach --top 0
  gotach locks app.tach --label handler=/search --since -60s
  gotach locks app.tach --json | jq '.locks[0]'`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			if top < 0 {
				return usagef("locks: --top %d: it must not be negative", top)
			}
			if err := choice.set("locks", &o); err != nil {
				return err
			}
			read, err := sources.reader("locks")
			if err != nil {
				return err
			}
			return e.read("locks", args, o, func(in *formats.Input) error {
				s, err := samples(in, stream.Options{Objects: true, Labels: true, Creators: true})
				if err != nil {
					return err
				}
				l, err := locks.Find(s, locks.Options{Channels: true, Source: read.Read})
				if err != nil {
					return err
				}
				return e.found(l, asJSON, func() []byte {
					if !each {
						l = l.Group()
					}
					t := lockTable{paint: newPaint(e.stdout), width: width(e.stdout), top: top, instant: in.Instant()}
					return t.render(in.Name, l)
				})
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&top, "top", 10, "show the `N` locks and N channels with the most waited time; 0: all")
	f.BoolVar(&each, "each", false, "show each object, even if three or more are alike")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	sources.add(cmd)
	choice.add(cmd)
	fromFlags(cmd, &o)
	return cmd
}

// A lockTable is locks as text:
//
//	app.tach: 30.0s, goroutines waited 8.20s for 1 lock
//
//	 WAITED  GOROUTINES   WAITS  LONGEST  LOCK
//	  8.20s          12     900   30.1ms  c.mu  sync.Mutex 17
//	  8.20s                                 [sync.Mutex.Lock] main.(*cache).get  cache.go:31
type lockTable struct {
	b     bytes.Buffer
	paint paint
	width int
	top   int
	tick  time.Duration

	instant bool // the profile is that of one instant: there are numbers of goroutines, and no times
}

func (t *lockTable) amount(d time.Duration) string { return unitless(d, t.instant) }

// columns returns what stands before a name. What is "" is left out, and times where nothing was
// measured.
func (t *lockTable) columns(waited, goroutines, waits, longest string) string {
	if t.instant {
		return fmt.Sprintf("%10s  ", waited)
	}
	return fmt.Sprintf("%8s  %10s  %6s  %7s  ", waited, goroutines, waits, longest)
}

func (t *lockTable) line(format string, args ...any) { printf(&t.b, format+"\n", args...) }

func (t *lockTable) render(name string, l *locks.Locks) []byte {
	t.tick = l.Tick
	var locks, others []locks.Lock
	count := 0
	for _, x := range l.Locks {
		if x.IsLock() {
			locks = append(locks, x)
			count += max(1, x.Objects)
		} else {
			others = append(others, x)
		}
	}
	title, long := t.paint.bold(name+":"), duration(l.Duration)+", "
	if t.instant {
		long = ""
	}
	if len(locks) == 0 {
		t.line("%s %sno goroutine was seen waiting for a lock", title, long)
		if len(others) == 0 {
			t.line("Nor for a channel, WaitGroup or Cond. gotach report shows where goroutines were.")
		}
	} else {
		waited := "goroutines waited " + t.amount(l.Waited)
		if t.instant {
			waited = plural(int64(l.Waited/time.Microsecond), "goroutine") + " waited"
		}
		t.line("%s %s%s for %s", title, long, waited, plural(int64(count), "lock"))
	}
	if l.Idle > 0 {
		what := " idle, in which goroutines waited for the next thing to do"
		if t.instant {
			what = " idle, which waited for the next thing to do"
		}
		t.line("left out: %s%s", t.amount(l.Idle), what)
	}
	t.section("LOCK", locks)
	t.section("CHANNEL OR GROUP", others)
	return t.b.Bytes()
}

// lockColumns is the width of the columns before the name.
const lockColumns, instantColumns = 39, 14 // the latter of an instant

// indent is the number of columns before a line that says more of a lock. On a narrow terminal it
// begins below LONGEST.
func (t *lockTable) indent() int {
	if t.instant {
		return instantColumns
	}
	if t.width < 100 {
		return lockColumns - 9
	}
	return lockColumns
}

func (t *lockTable) section(title string, list []locks.Lock) {
	if len(list) == 0 {
		return
	}
	t.line("")
	head := t.columns("WAITED", "GOROUTINES", "WAITS", "LONGEST")
	if t.instant {
		head = t.columns("GOROUTINES", "", "", "")
	}
	t.line("%s", t.paint.bold(head+title))
	for i := range list {
		if t.top > 0 && i == t.top {
			t.line("… and %d more (--top 0 shows all)", len(list)-i)
			break
		}
		t.lock(&list[i])
	}
}

// waitCount returns a number of waits for a lock as text.
func waitCount(x *locks.Lock, waits int) string {
	if x.AtLeast {
		return fmt.Sprintf("≥%d", waits)
	}
	return fmt.Sprint(waits)
}

// longestWait returns the length of the longest wait for a lock as text.
func longestWait(x *locks.Lock) string {
	if x.Below > 0 {
		return "<" + duration(x.Below)
	}
	return duration(x.Longest)
}

// mostSites is the number of sites of a lock that are shown, and of lines of its holders.
const mostSites = 3

func (t *lockTable) lock(x *locks.Lock) {
	number := ""
	if x.Object > 0 {
		number = fmt.Sprintf(" %d", x.Object)
	}
	if x.Objects > 0 {
		number = fmt.Sprintf(", %d objects", x.Objects)
	}
	kind := x.Kind + number
	columns := t.columns(t.amount(x.Waited), fmt.Sprint(x.Goroutines), waitCount(x, x.Waits), longestWait(x))
	room := max(minName, t.width-len(columns)-utf8.RuneCountInString(kind)-2)
	t.line("%s%s  %s", columns, t.paint.bold(shorten(x.Name, room)), t.paint.dim(kind))
	for i, s := range x.Sites {
		if i == mostSites {
			break
		}
		reason := "[" + s.Reason + "] "
		room := t.width - t.indent() - utf8.RuneCountInString(reason)
		t.line("%-*.*s%s%s", t.indent(), t.indent(), t.columns(t.amount(s.Waited), "", waitCount(x, s.Waits), ""), t.paint.wait(reason),
			site(t.paint, s.Func, fileLine(s.File, s.Line), room))
	}
	switch {
	case x.Holder == nil && (x.Kind == tachyon.ObjectChannel || x.Kind == tachyon.ObjectSelect):
		t.line("%*s%s", t.indent(), "", t.paint.dim("nobody was seen on the other side"))
	case x.Holder != nil:
		t.holder(x)
	}
}

// holder shows who held a lock.
func (t *lockTable) holder(x *locks.Lock) {
	h := x.Holder
	if t.instant && h.Unknown == x.Waited {
		t.line("%*s%s", t.indent(), "", t.paint.dim("who held it is not known"))
		return
	}
	what := "held by"
	if h.Role == locks.RoleOtherSide {
		what = "on the other side"
	}
	shares := fmt.Sprintf("(%s seen, %s inferred, %s unknown)", percent(h.Seen, x.Waited),
		percent(h.Inferred, x.Waited), percent(h.Unknown, x.Waited))
	if t.indent()+len(what)+1+len(shares) > t.width {
		t.line("%*s%s", t.indent(), "", what)
		what = shares
	} else {
		what += " " + shares
	}
	t.line("%*s%s", t.indent(), "", what)
	for i, l := range h.Lines {
		if i == mostSites || i > 0 && l.Time < h.Lines[0].Time/100 {
			break
		}
		state := "[" + l.State + "] "
		room := t.width - t.indent() - utf8.RuneCountInString(state)
		waited := t.amount(l.Time)
		if t.instant {
			waited = "" // it would be the number of those that wait
		}
		t.line("%-*.*s%s%s", t.indent(), t.indent(), t.columns(waited, "", "", ""), t.paint.busy(state), site(t.paint, l.Func, fileLine(l.File, l.Line), room))
	}
	if h.TooShort && !t.instant {
		t.line("%*smost holds are shorter than two ticks of %s:", t.indent(), "", duration(t.tick))
		t.line("%*stoo short to tell one from the next", t.indent(), "")
	}
}
