package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newRequests(e *env) *cobra.Command {
	var o formats.Options
	var function, slowest string
	var asJSON bool
	var choice selectFlags
	var sources sourceFlags
	cmd := &cobra.Command{
		Use:   "requests FILE...",
		Short: "Show how long requests took, and why the slow ones were slow",
		Long: `Show how long requests took: a histogram, percentiles, and what the slow ones did more than
those near the median. No code is needed for that: a request is an invocation of a function,
which is the time in which the same call of it stays on a goroutine's stack. Without a flag
the function is an HTTP handler (ServeHTTP), else a gRPC handler, else a test.

With --label KEY, a request is the time in which goroutines have one value of a pprof label.
Goroutines inherit labels, so it has the time of all goroutines that work for it.

The length of a single request is only as exact as the time between two of its samples. Percentiles
are estimated from all requests together, and are more exact. A percentile below the usual time
between two samples is not known: < stands before that time. If 1 % of the requests take much
longer than all others, the 99th percentile lies between the two, and is not well defined.
Requests with a single sample are too short to tell, and most shorter ones have no sample. Their number
is estimated, or only a minimum is known, from how often the goroutines of connections ran between two
samples. With a minimum, < stands before all percentiles: the requests without a sample would make
them smaller. Requests that last at the end of the profile are not finished, and are not counted.

Requests of net/http and of gRPC are told apart also if they follow at once. Other calls on one
goroutine count as one if there is no sample between them. Where that is possible, because
a goroutine waits again at the place of its wait before, each percentile is a range. At one end each
such wait is a call of its own, at the other none is.

The lock or channel that a line waits for is named if the source file is read; see below.
In the lines of the slowest requests, █ is running, ▒ could run but had no core, ░ waiting.

` + sourceHelp + `

` + selectHelp + `
A request counts if it has a sample that they select: --state 'sync.Mutex.Lock' has the requests
that waited for a Mutex. convert --slowest makes a pprof profile of the slowest requests.`,
		Example: `  gotach requests app.tach
  gotach requests app.tach --func 'QueryContext$' --slowest 5%
  gotach requests app.tach --label trace_id
  gotach requests app.tach --json | jq '.difference[0]'`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			ro, err := requestOptions("requests", function, slowest, &choice)
			if err == nil {
				err = choice.set("requests", &o)
			}
			if err != nil {
				return err
			}
			read, err := sources.reader("requests")
			if err != nil {
				return err
			}
			ro.Source = read.Read
			return e.read("requests", args, o, func(in *formats.Input) error {
				s, err := samples(in, stream.Options{Labels: true})
				if err != nil {
					return err
				}
				r, err := analyze.FindRequests(s, ro)
				if err != nil {
					return err
				}
				e.barDone()
				if asJSON {
					return e.printJSON(r, " ")
				}
				text := requestsTable(in.Name, r, newPaint(e.stdout), width(e.stdout))
				if r.Count == 0 {
					text = append(text, noRequests(r, ro, o.Select != nil)...)
				}
				_, err = e.stdout.Write(text)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&function, "func", "", "a request is an invocation of a function that matches `REGEXP`")
	f.StringVar(&slowest, "slowest", "1%", "the `PERCENT` of the requests that are slow")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	sources.add(cmd)
	choice.add(cmd)
	f.Lookup("label").Usage = "a request is the time in which the label `KEY` has one value; KEY=VALUE: only requests with this label"
	fromFlags(cmd, &o)
	return cmd
}

// requestOptions checks the flags. From those that select samples it takes the label without a value: its values
// are the requests.
func requestOptions(cmd, function, slowest string, choice *selectFlags) (o analyze.RequestOptions, err error) {
	var labels []string
	for _, text := range choice.labels {
		switch {
		case strings.Contains(text, "="):
			labels = append(labels, text)
		case o.Label != "":
			return o, usagef("%s: --label %s and --label %s exclude each other", cmd, o.Label, text)
		default:
			o.Label = text
		}
	}
	choice.labels = labels
	if o.Slowest, err = parsePercent(slowest); err != nil {
		return o, usagef("%s: --slowest: %w", cmd, err)
	}
	switch {
	case o.Slowest == 0 || o.Slowest > 1:
		return o, usagef("%s: --slowest %s: it must be above 0 and at most 100%%", cmd, slowest)
	case function != "" && o.Label != "":
		return o, usagef("%s: --func and --label %s exclude each other", cmd, o.Label)
	case function != "":
		if o.Func, err = regexp.Compile(function); err != nil {
			return o, usagef("%s: --func: %w", cmd, err)
		}
	}
	return o, nil
}

// mostDifferences is the number of rows of what slow requests do more.
const mostDifferences = 10

// requestsTable returns the requests as text:
//
//	app.tach: 5959 requests: HTTP handlers (ServeHTTP)
//	98 too short to tell; 307 not finished
//
//	p50 11.0ms   p90 13.0ms   p99 15.0ms   max 55.0ms
//	 8.00ms   5721  ████████████████████
//
//	The 60 slowest, from 15.0ms on, take this much more than 1193 near the median:
//	   MORE    MEDIAN      SLOW  STATE
//	+38.7ms         0    38.7ms  sleep
//
//	   MORE  AT
//	+38.7ms  [sleep] main.backoff handler.go:14
func requestsTable(name string, r *analyze.Requests, paint paint, width int) []byte {
	var b bytes.Buffer
	printf(&b, "%s %s: %s\n", paint.bold(name+":"), plural(int64(r.Count), "request"), r.What)
	var notes []string
	if r.TooShort > 0 {
		notes = append(notes, fmt.Sprintf("%d too short to tell", r.TooShort))
	}
	if more := r.Estimated - r.Count; more > r.Count/50 {
		about := "about"
		if r.AtLeast {
			about = "at least"
		}
		notes = append(notes, fmt.Sprintf("%s %d more have no sample", about, more))
	}
	if r.Unfinished > 0 {
		notes = append(notes, fmt.Sprintf("%d not finished", r.Unfinished))
	}
	if len(notes) > 0 {
		printf(&b, "%s\n", strings.Join(notes, "; "))
	}
	if r.Idle > 0 {
		printf(&b, "left out: %s idle of goroutines that have the label but work in the background\n", duration(r.Idle))
	}
	if r.Count == 0 {
		return b.Bytes()
	}
	if r.Lower != nil {
		printf(&b, "%s\n", paint.bold("Where a goroutine waits again at one place, another call may have begun. So percentiles are ranges."))
	}
	p50, p90, p99 := percentiles(r)
	printf(&b, "\np50 %s   p90 %s   p99 %s   max %s\n", paint.bold(p50), paint.bold(p90), paint.bold(p99),
		paint.bold(length(cmp.Or(r.Lower, &r.RequestLengths).Max, r.Max, r.Short)))
	most := 0
	for _, bucket := range r.Histogram {
		most = max(most, bucket.Count)
	}
	for _, bucket := range r.Histogram {
		n := (2*barWidth*bucket.Count + most - 1) / most
		printf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("%7s %8d  %s", duration(bucket.From), bucket.Count, paint.wait(strings.Repeat("█", n))), " "))
	}
	printf(&b, "\nThe %d slowest, from %s on, take this much more than %d near the median:\n", r.Slow.Count, duration(r.Slow.From), r.Median.Count)
	printf(&b, "%s\n", paint.bold(fmt.Sprintf("%8s %8s %8s  %s", "MORE", "MEDIAN", "SLOW", "STATE")))
	for _, state := range states(r) {
		median, slow := r.Median.States[state], r.Slow.States[state]
		printf(&b, "%8s %8s %8s  %s\n", more(slow-median), duration(median), duration(slow), paint.wait(state))
	}
	printf(&b, "\n%s\n", paint.bold(fmt.Sprintf("%8s  %s", "MORE", "AT")))
	for i, d := range r.Difference {
		if i >= mostDifferences || i > 0 && d.Time < r.Difference[0].Time/100 {
			break
		}
		at := ""
		if d.Object != "" {
			at = " " + d.Object
		}
		if d.Line > 0 {
			at += fmt.Sprintf(" %s:%d", d.File[strings.LastIndexAny(d.File, `/\`)+1:], d.Line)
		}
		if d.In != "" {
			at += " in " + profile.FuncName(d.In)
		}
		room := width - 13 - utf8.RuneCountInString(d.State) - utf8.RuneCountInString(at)
		if d.In != "" && room < minName {
			at, room = at[:strings.LastIndex(at, " in ")], minName
		}
		printf(&b, "%8s  %s %s%s\n", more(d.Time), paint.wait("["+d.State+"]"), shorten(d.Name, max(minName, room)), paint.dim(at))
	}
	printf(&b, "\n%s\n", paint.bold(fmt.Sprintf("%8s %8s %10s  %-30s  %s", "TIME", "START", "GOROUTINE", "SLOWEST", "LABELS")))
	bars := strings.NewReplacer("R", paint.busy("█"), "r", paint.late("▒"), ".", paint.wait("░"))
	for _, x := range r.Slowest {
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(x.Labels)) {
			labels = append(labels, k+"="+x.Labels[k])
		}
		text := cut(oneLine(strings.Join(labels, " ")), max(minName, width-62))
		line := fmt.Sprintf("%8s %8s %10d  %s  %s", duration(x.Time), duration(time.Duration(x.Start)*time.Microsecond), x.Goroutine, bars.Replace(x.Timeline), text)
		printf(&b, "%s\n", strings.TrimRight(line, " "))
	}
	return b.Bytes()
}

// noRequests says what to do if there are no requests.
func noRequests(r *analyze.Requests, o analyze.RequestOptions, selects bool) string {
	switch {
	case r.Unfinished > 0:
		return "None of them has ended. Record for longer.\n"
	case selects:
		return "No request has a sample that the flags select. Try without them.\n"
	case o.Func != nil:
		return "No sample is in such a function. gotach report --by function --top 0 shows those that have samples.\n"
	case o.Label != "":
		return "No sample has this label. gotach report --by label:KEY shows the values of a label.\n"
	}
	return "With --func REGEXP, each call of a function that matches is a request; with --label KEY, the time in which\n" +
		"goroutines have one value of a pprof label. gotach report names functions that may be worth a look.\n"
}

// length returns a length between two as text.
func length(low, high, short time.Duration) string {
	text := func(d time.Duration) string {
		if d < short {
			return "<" + duration(short)
		}
		return duration(d)
	}
	if l, h := text(low), text(high); l != h {
		return l + ".." + h
	}
	return text(high)
}

// percentiles returns the percentiles of requests as text. If there are more requests than are known, all of them short,
// the percentiles are smaller than those that are known.
func percentiles(r *analyze.Requests) (p50, p90, p99 string) {
	lower := cmp.Or(r.Lower, &r.RequestLengths)
	text := func(low, high time.Duration) string {
		s := length(low, high, r.Short)
		if r.AtLeast && s[0] != '<' {
			s = "<" + s
		}
		return s
	}
	return text(lower.P50, r.P50), text(lower.P90, r.P90), text(lower.P99, r.P99)
}

// states returns the states of requests, what slow ones do more first.
func states(r *analyze.Requests) []string {
	all := maps.Clone(r.Median.States)
	maps.Copy(all, r.Slow.States)
	difference := func(state string) time.Duration { return r.Slow.States[state] - r.Median.States[state] }
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if d := difference(b) - difference(a); d != 0 {
			return int(max(-1, min(1, d)))
		}
		return strings.Compare(a, b)
	})
}

// funcFlag returns a function as the value of --func, quoted for a shell.
func funcFlag(function string) string {
	return quoted(regexp.QuoteMeta(function) + "$")
}

// more returns a difference of times as text.
func more(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < 0:
		return "-" + duration(-d)
	}
	return "+" + duration(d)
}
