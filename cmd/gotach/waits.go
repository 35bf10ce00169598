package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/locks"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newWaits(e *env) *cobra.Command {
	var o formats.Options
	var asJSON bool
	var choice selectFlags
	var sources sourceFlags
	cmd := &cobra.Command{
		Use:   "waits GOROUTINE|FUNC FILE...",
		Short: "Show what goroutines waited for, down to the cause",
		Long: `Show what a goroutine did, or all goroutines while they were in functions whose names match the
regular expression FUNC. Below each wait stands its cause and what that did meanwhile: the goroutine
that held the lock, the last goroutine of a WaitGroup, or the other side of a channel; below that the
cause of its own wait, down to I/O, sleep or the CPU.

Causes are found from where all goroutines were. Each line says how certain it is: seen or inferred, as in gotach locks.
For a WaitGroup it is the goroutine that the waiting one had started and that ended last.
For a channel it is one of these, else unknown:
  - one that was seen on the other side (several share the time equally)
  - the only one in functions that use such a channel that ran when the wait
    ended
  - the only one that the waiting function had started and that ended with
    the wait
What libraries wait for has a name, such as "a free connection of sql.DB". Locks are told apart by the
source, if that is read.

` + sourceHelp + `

` + selectHelp + `
They select what stands at the left. What is below it can be any goroutine.`,
		Example: `  gotach waits 17 app.tach
  gotach waits 'main\.serve$' app.tach
  gotach waits ServeHTTP app.tach --state 'sync.Mutex.Lock' --since -60s
  gotach waits ServeHTTP app.*.tach --json | jq '.chains[0]'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("waits: no goroutine or function; usage: gotach %s", cmd.Use)
			}
			return someFiles(cmd, args[1:])
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := choice.set("waits", &o); err != nil {
				return err
			}
			who, files := whoseWaits(args)
			wo, err := waitOptions(who)
			if err != nil {
				return err
			}
			read, err := sources.reader("waits")
			if err != nil {
				return err
			}
			wo.Source = read.Read
			return e.read("waits", files, o, func(in *formats.Input) error {
				s, err := samples(in, stream.Options{Objects: true})
				if err != nil {
					return err
				}
				w, err := locks.FindWaits(s, wo)
				if err != nil {
					return err
				}
				return e.found(w, asJSON, func() []byte {
					t := waitTable{paint: newPaint(e.stdout), width: width(e.stdout), all: w.Time, instant: in.Instant()}
					return t.render(in.Name, who, w)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	sources.add(cmd)
	choice.add(cmd)
	fromFlags(cmd, &o)
	return cmd
}

// whoseWaits returns the goroutine or function among the arguments, and the files. It is the first
// one, or the last one if only the others are names of files.
func whoseWaits(args []string) (who string, files []string) {
	last := len(args) - 1
	if exists(args[0]) && !exists(args[last]) {
		return args[last], args[:last]
	}
	return args[0], args[1:]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func waitOptions(who string) (o locks.WaitOptions, err error) {
	if n, err := strconv.ParseUint(strings.TrimPrefix(who, "goroutine "), 10, 64); err == nil && n > 0 {
		o.Goroutine = n
		return o, nil
	}
	if o.Func, err = pattern(who); err != nil {
		return o, usagef("waits: %w", err)
	}
	return o, nil
}

// A waitTable is waits as text:
//
//	app.tach: 2 goroutines in serve: 2.00s, of which they waited 1.20s
//
//	   1.20s  [sync.Mutex.Lock] main.(*cache).get  cache.go:31  for c.mu 1
//	   1.20s    held by goroutine 7 (inferred): [sleep] main.load  cache.go:60
//	   800ms  [running] main.serve  cache.go:14
type waitTable struct {
	b     bytes.Buffer
	paint paint
	width int
	all   time.Duration

	instant bool // the profile is that of one instant: amounts are numbers of goroutines
}

func (t *waitTable) render(name, who string, w *locks.Waits) []byte {
	title := t.paint.bold(name + ":")
	if w.Goroutines == 0 {
		printf(&t.b, "%s no goroutine has a sample in %s\n", title, who)
		printf(&t.b, "gotach report --by goroutine shows the goroutines, --by function --top 0 the functions that have samples.\n")
		return t.b.Bytes()
	}
	if t.instant {
		printf(&t.b, "%s %s in %s, of which %s waited\n\n", title, plural(int64(w.Goroutines), "goroutine"), who, unitless(w.Waited, true))
	} else {
		printf(&t.b, "%s %s in %s: %s, of which they waited %s\n\n", title, plural(int64(w.Goroutines), "goroutine"), who, duration(w.Time), duration(w.Waited))
	}
	t.nodes(w.Chains, 0)
	return t.b.Bytes()
}

// mostWaitNodes is the number of lines below a line that are shown. None has less than a hundredth
// of the time.
const mostWaitNodes = 5

func (t *waitTable) nodes(list []locks.WaitNode, depth int) {
	for i := range list {
		n := &list[i]
		if i == mostWaitNodes || i > 0 && n.Time < t.all/100 {
			left := time.Duration(0)
			for j := i; j < len(list); j++ {
				left += list[j].Time
			}
			t.line(left, depth, t.paint.dim(fmt.Sprintf("… %d more", len(list)-i)))
			break
		}
		t.node(n, depth)
	}
}

func (t *waitTable) line(d time.Duration, depth int, text string) {
	printf(&t.b, "%8s  %*s%s\n", unitless(d, t.instant), 2*depth, "", text)
}

func (t *waitTable) node(n *locks.WaitNode, depth int) {
	role := t.role(n)
	state := "[" + n.State + "] "
	object := ""
	if n.Name != "" {
		object = "  for " + n.Name
		if n.Object > 0 {
			object += fmt.Sprintf(" %d", n.Object)
		}
	}
	if n.In != nil {
		object = "  in " + n.In.Func + "  " + fileLine(n.In.File, n.In.Line) + object
	}
	room := t.width - 10 - 2*depth - utf8.RuneCountInString(role+state+object)
	paint := t.paint.busy
	if n.Name != "" {
		paint = t.paint.wait
	}
	at := ""
	if n.Line > 0 {
		at = fileLine(n.File, n.Line)
	}
	t.line(n.Time, depth, role+paint(state)+site(t.paint, n.Func, at, room)+t.paint.bold(object))
	if n.Has != nil {
		t.line(n.Time, depth+1, "who waits has one already, in "+n.Has.Func+"  "+fileLine(n.Has.File, n.Has.Line))
	}
	if n.Cycle {
		t.line(n.Time, depth+1, "which waits for a goroutine above: a deadlock")
	}
	t.nodes(n.Next, depth+1)
	if n.Unknown > 0 && n.Unknown >= t.all/100 {
		t.line(n.Unknown, depth+1, t.paint.dim("unknown"))
	}
}

// role says how a goroutine keeps the one before it waiting.
func (t *waitTable) role(n *locks.WaitNode) string {
	if n.Role == "" {
		return ""
	}
	who := fmt.Sprintf("goroutine %d", n.Goroutine)
	if n.Others > 0 {
		who += " and "
		if n.AtLeast {
			who += "at least "
		}
		who += plural(int64(n.Others), "other")
	}
	how := " (" + n.Known + "): "
	switch n.Role {
	case "holds":
		return "held by " + who + how
	case "last child":
		if n.Alone > 0 && !t.instant {
			how = " (" + n.Known + ", the only one left for " + duration(n.Alone) + "): "
		}
		if t.instant {
			return "until " + who + " ends" + how
		}
		return "until " + who + " ended" + how
	case "child":
		return "until " + who + " ended, which it had started" + how
	}
	return who + " on the other side" + how
}
