package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/leaks"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newLeaks(e *env) *cobra.Command {
	var o formats.Options
	var asJSON bool
	var choice selectFlags
	cmd := &cobra.Command{
		Use:   "leaks FILE...",
		Short: "Show groups of goroutines that grow and never run again",
		Long: `Show groups of waiting goroutines that grow. A group's goroutines were created at one place and wait
at one place: the innermost line of the program's own code.

A group is a suspect if its number grows through the whole profile, by at least five, and its
goroutines do not run again; or if at least twenty of them only wake up now and then, as at a
ticker. PER MINUTE is the slope (Theil-Sen), OLDEST the longest wait. STUCK counts waits that have
lasted for an eighth of the profile and have not ended, RAN AGAIN waits at this place that ended.

A group that grows is no suspect if its goroutines are used: if waits as long as the stuck ones end
there too, or if goroutines that wake up at a ticker end or do something else. Left out is the
goroutine with which net/http reads from a connection while a handler runs; it ends with the
handler, which is shown. The native source sees a goroutine that ran for a few µs and waits at the
same place again; the portable source does not, so such goroutines look stuck. A longer profile
tells more. Waits that end in the last half second, as with a shutdown, count as if they had not, if
hardly any as long ended before.

If a program built with Go 1.27 imports github.com/gotach/profiler/leaks and runs with
PROFILE_LEAKS=1, the runtime says at the end which goroutines provably wait forever. Files of a session with rotation
are one profile.

` + selectHelp + `
Here they select the waits that count. Whether a wait ended is known from all samples.`,
		Example: `  gotach leaks app.tach
  gotach leaks app.*.tach
  gotach leaks app.tach --since 10m --label tenant=a
  gotach leaks app.tach --json | jq '.groups[] | select(.suspect)'`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := choice.set("leaks", &o); err != nil {
				return err
			}
			return e.read("leaks", args, o, func(in *formats.Input) error {
				s, err := samples(in, stream.Options{Creators: true})
				if err != nil {
					return err
				}
				l, err := leaks.Find(s)
				if err != nil {
					return err
				}
				return e.found(l, asJSON, func() []byte { return leaksTable(in.Name, l, newPaint(e.stdout), width(e.stdout)) })
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	choice.add(cmd)
	fromFlags(cmd, &o)
	return cmd
}

// samples returns a profile's samples for an analysis.
func samples(in *formats.Input, o stream.Options) (*analyze.Samples, error) {
	o.Unselected = true
	src, err := in.Source(o)
	if err != nil {
		return nil, err
	}
	return analyze.NewSamples(in.Name, src), nil
}

// found prints what an analysis has found, as JSON or as text.
func (e *env) found(x any, asJSON bool, text func() []byte) error {
	e.barDone()
	if asJSON {
		return e.printJSON(x, " ")
	}
	return e.print(text())
}

// leastPlace is the least number of columns for a place beside the numbers of a group.
const leastPlace = 40

// leaksTable returns the groups as text:
//
//	app.tach: 30.0s, 150025 goroutines
//	1 suspect: goroutines that wait and do not run again, or only at a ticker
//
//	  START     END  PER MINUTE  OLDEST   STUCK  RAN AGAIN            WAITS FOR, AT, CREATED BY
//	      0      25       +50.0   29.4s      22          0  ▁▂▃▄▅▆▇█  [chan receive]  main.serve.func1  serve.go:21
//	                                                                  created by main.serve  serve.go:7
func leaksTable(name string, l *leaks.Leaks, paint paint, width int) []byte {
	var b bytes.Buffer
	printf(&b, "%s %s, %s\n", paint.bold(name+":"), duration(l.Duration), plural(int64(l.Goroutines), "goroutine"))
	switch {
	case l.ProvenUnknown != "":
		printf(&b, "What the runtime can prove is not known: %s.\n", l.ProvenUnknown)
	case l.Proven > 0:
		printf(&b, "%s\n", paint.busy(plural(int64(l.Proven), "goroutine"))+" proven to be leaked by the runtime")
	case l.Asked:
		printf(&b, "The runtime found no goroutine that it can prove to be leaked.\n")
	}
	suspects := 0
	for i := range l.Groups {
		if l.Groups[i].Suspect {
			suspects++
		}
	}
	switch {
	case len(l.Groups) == 0:
		printf(&b, "No group of goroutines grows. A slow leak needs a longer profile.\n")
		return b.Bytes()
	case suspects == 0 && l.Proven > 0:
	case suspects == 0:
		printf(&b, "No suspect: groups grow, but their goroutines run again, or there are too few to tell.\n")
	default:
		printf(&b, "%s\n", paint.busy(plural(int64(suspects), "suspect"))+": goroutines that wait and do not run again, or only at a ticker")
	}
	printf(&b, "\n")
	head := fmt.Sprintf("%7s %7s  %10s  %6s  %6s  %9s  %-*s  ", "START", "END", "PER MINUTE", "OLDEST", "STUCK", "RAN AGAIN", sparkWidth, "")
	at := utf8.RuneCountInString(head) // column of the places
	before := "  "                     // them
	if width-at < leastPlace {         // they have lines of their own
		printf(&b, "%s\n", paint.bold(strings.TrimRight(head, " ")))
		at = 8
		before = fmt.Sprintf("\n%*s", at, "")
		printf(&b, "%*s%s\n", at, "", paint.bold("WAITS AT"))
	} else {
		printf(&b, "%s\n", paint.bold(head+"WAITS AT"))
	}
	for i := range l.Groups {
		g := &l.Groups[i]
		spark := paint.wait(sparkline(g.Alive))
		if g.Suspect {
			spark = paint.busy(sparkline(g.Alive))
		}
		printf(&b, "%7d %7d  %10s  %6s  %6d  %9d  %s", g.Start, g.End, g.GrowthText(), duration(g.Oldest), g.Stuck, g.RanAgain, spark)
		b.WriteString(before)
		for j, line := range groupLines(g, paint, width-at) {
			if j > 0 {
				b.WriteString(strings.Repeat(" ", at))
			}
			printf(&b, "%s\n", line)
		}
	}
	return b.Bytes()
}

// groupLines returns where the goroutines of a group wait, what the runtime can prove, and where
// they were created.
func groupLines(g *leaks.Group, paint paint, room int) []string {
	lines := []string{site(paint, g.Function, fileLine(g.File, g.Line), room)}
	if g.Proven > 0 {
		lines = append(lines, paint.busy(fmt.Sprintf("%d proven by the runtime to wait forever", g.Proven)))
	}
	why := ""
	if g.Reason != "" {
		why = paint.wait("["+g.Reason+"]") + " "
		if g.For != "" {
			why += "for " + g.For + ", "
		}
	}
	by := cmp.Or(g.CreatedBy, "unknown")
	return append(lines, why+paint.dim("created by ")+site(paint, by, baseName(g.CreatedAt), room-len(g.Reason)-len(g.For)-20))
}

// site returns a function and its place in the source in at most room columns. If there is too
// little room, the place is left out.
func site(paint paint, function, at string, room int) string {
	function = profile.FuncName(function)
	at = shortenPlace(at, function, room)
	left := room - utf8.RuneCountInString(at) - 2
	if at == "" || left < minName/2 {
		return shorten(function, max(room, minName/2))
	}
	return shorten(function, left) + "  " + paint.dim(at)
}

// sparkWidth is the number of columns of a sparkline.
const sparkWidth = 10

// sparkline shows a series of numbers in sparkWidth columns.
func sparkline[T float32 | float64](values []T) string { return sparks(values, sparkWidth) }

// sparks shows a series of numbers in so many columns. What is below zero, as a difference may be
// by a little, shows as zero.
func sparks[T float32 | float64](values []T, columns int) string {
	var b strings.Builder
	most := T(0)
	for _, v := range values {
		most = max(most, v)
	}
	for i := range columns {
		from := i * len(values) / columns
		to := max(from+1, (i+1)*len(values)/columns)
		if from >= len(values) || most == 0 {
			b.WriteByte(' ')
			continue
		}
		sum := T(0)
		for _, v := range values[from:min(to, len(values))] {
			sum += v
		}
		mean := sum / T(min(to, len(values))-from)
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[max(0, int(math.Round(float64(7*mean/most))))])
	}
	return b.String()
}
