package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/cores"
	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// mostDifferences is the number of rows of what slow requests do more.
const mostDifferences = 10

// requestsTable returns the requests as text:
//
//	app.tach: about 5959 requests (5700 to 6020): HTTP handlers (ServeHTTP)
//	5200 have a sample; 98 too short to tell; 307 not finished
//
//	p50 11.0ms   p90 13.0ms   p99 15.0ms   max 55.0ms
//	3.2 a second take over 15.0ms
//
//	REQUESTS     P50     P90     P99     MAX  HANDLER
//	    5959  11.0ms  13.0ms  15.0ms  55.0ms  HTTP
//	    5959  11.0ms  13.0ms  15.0ms  55.0ms    main.handle
//
//	up to 8.00ms      238  █
//	      8.00ms     5721  ████████████████████
//
//	The 60 slowest, from 15.0ms on, take this much more than 1193 near the median:
//	   MORE    MEDIAN      SLOW  STATE
//	+38.7ms         0    38.7ms  sleep
//
//	   MORE  AT
//	+38.7ms  [sleep] main.backoff handler.go:14
func requestsTable(name string, r *requests.Requests, paint paint, width int) []byte {
	var b bytes.Buffer
	printf(&b, "%s %s: %s\n", paint.bold(name+":"), requestCount(r.Number), r.What)
	var notes []string
	if r.Seen != r.Count || r.Seen < r.Low {
		notes = append(notes, fmt.Sprintf("%d have a sample", r.Seen))
	}
	if r.TooShort > 0 {
		notes = append(notes, fmt.Sprintf("%d too short to tell", r.TooShort))
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
		handlers(&b, r, paint, width)
		return b.Bytes()
	}
	if r.Lower != nil {
		printf(&b, "%s\n", paint.bold("Where a goroutine waits again at one place, another call may have begun. So percentiles are ranges."))
	}
	p := percentiles(r)
	printf(&b, "\np50 %s   p90 %s   p99 %s   max %s\n", paint.bold(p[0]), paint.bold(p[1]), paint.bold(p[2]), paint.bold(p[3]))
	if r.SlowPerSecond > 0 {
		printf(&b, "%s a second take over %s\n", digits(r.SlowPerSecond), duration(r.SlowOver))
	}
	handlers(&b, r, paint, width)
	printf(&b, "\n")
	most := 1
	for _, bucket := range r.Histogram {
		most = max(most, bucket.Count)
	}
	for _, bucket := range r.Histogram {
		n := (2*barWidth*bucket.Count + most - 1) / most
		from := duration(bucket.From)
		if bucket.From == 0 {
			from = "up to " + duration(bucket.To)
		}
		printf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("%13s %8d  %s", from, bucket.Count, paint.wait(strings.Repeat("█", n))), " "))
	}
	if r.Slow.Count == 0 {
		return b.Bytes()
	}
	median := "near the median"
	if r.P50 == 0 { // the median ones have no sample
		median = "in the middle of those with a sample"
	}
	printf(&b, "\nThe %d slowest, from %s on, take this much more than %d %s:\n", r.Slow.Count, duration(r.Slow.From), r.Median.Count, median)
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
		state := "[" + d.State + "]"
		if d.Peer != "" {
			state += " on " + stream.PeerText(d.Peer)
		}
		if d.Line > 0 {
			at += fmt.Sprintf(" %s:%d", d.File[strings.LastIndexAny(d.File, `/\`)+1:], d.Line)
		}
		if d.In != "" {
			at += " in " + profile.FuncName(d.In)
		}
		room := width - 11 - utf8.RuneCountInString(state) - utf8.RuneCountInString(at)
		if d.In != "" && room < minName {
			at, room = at[:strings.LastIndex(at, " in ")], minName
		}
		printf(&b, "%8s  %s %s%s\n", more(d.Time), paint.wait(state), shorten(d.Name, max(minName, room)), paint.dim(at))
		if text := ranInstead(&d); text != "" {
			printf(&b, "%8s    %s\n", "", paint.dim(cut(text, width-12)))
		}
	}
	repeated(&b, r, paint, width)
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

// ranInstead says who had the cores while slow requests waited for one, "" if nobody had much of them.
func ranInstead(d *requests.Difference) string {
	var parts []string
	for _, x := range d.Ran {
		if x.Share >= 0.1 && d.Time > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% of it while %s ran", 100*x.Share, x.Name))
		}
	}
	text := strings.Join(parts, ", ")
	return strings.ReplaceAll(text, cores.Free+" ran", "cores were free")
}

// mostRepeats is the number of lines at which requests waited again and again that are shown.
const mostRepeats = 3

// repeated prints at which lines each request waited several times.
func repeated(b *bytes.Buffer, r *requests.Requests, paint paint, width int) {
	for i := range r.Repeats {
		x := &r.Repeats[i]
		if i == mostRepeats || x.Time < r.Repeats[0].Time/10 {
			break
		}
		if i == 0 {
			printf(b, "\n%s\n", paint.bold(fmt.Sprintf("%8s %8s  %s", "ALL TIME", "EACH", "WAITS AGAIN AND AGAIN AT")))
		}
		each := fmt.Sprintf("≥%.1f×", x.Each())
		state := "[" + x.State + "]"
		printf(b, "%8s %8s  %s %s\n", duration(x.Time), each, paint.wait(state), site(paint, x.Func, fmt.Sprintf("%s:%d", baseName(x.File), x.Line), width-20-utf8.RuneCountInString(state)))
	}
}

// noRequests says what to do if there are no requests.
func noRequests(r *requests.Requests, o requests.Options, selects bool) string {
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

// requestCount returns the number of requests as text.
func requestCount(c requests.Number) string {
	switch {
	case c.Count == 0 || c.High > 0 && 25*(c.High-c.Low) <= c.Count:
		return plural(int64(c.Count), "request")
	case c.Known():
		return fmt.Sprintf("about %s (%d to %d)", plural(int64(c.Count), "request"), c.Low, c.High)
	case c.High == 0:
		return fmt.Sprintf("at least %s", plural(int64(c.Low), "request"))
	}
	return fmt.Sprintf("%d to %s", c.Low, plural(int64(c.High), "request"))
}

// shortCount is requestCount for a table.
func shortCount(c requests.Number) string {
	switch {
	case c.Known():
		return fmt.Sprint(c.Count)
	case c.High == 0:
		return fmt.Sprintf(">=%d", c.Low)
	}
	return fmt.Sprintf("%d..%d", c.Low, c.High)
}

// mostHandlers is the number of rows of handlers.
const mostHandlers = 15

// handlers prints the requests of each kind, and of each handler. If all requests are of one handler it prints nothing.
func handlers(b *bytes.Buffer, r *requests.Requests, paint paint, width int) {
	if len(r.Rows) < 3 && (len(r.Rows) == 0 || !r.Rows[0].Aside) {
		return
	}
	printf(b, "\n%s\n", paint.bold(fmt.Sprintf("%14s %8s %8s %8s %8s  %s", "REQUESTS", "P50", "P90", "P99", "MAX", "HANDLER")))
	n := 0
	for _, kind := range r.Rows {
		if !kind.All {
			continue
		}
		for _, x := range r.Rows {
			if x.Kind != kind.Kind || x.Aside != kind.Aside {
				continue
			}
			name := "  " + x.Handler
			switch {
			case x.All && x.Kind == "debug":
				name = "requests that look at the program itself; not counted above"
			case x.All:
				if name = x.Kind; x.Aside {
					name += "; not counted above"
				}
			case x.Handler == "":
				name = "  no sample shows which"
			}
			if n++; n > mostHandlers && !x.All {
				continue
			}
			p := lengths(&x.Lengths)
			printf(b, "%14s %8s %8s %8s %8s  %s\n", shortCount(x.Number), p[0], p[1], p[2], p[3], shorten(name, max(minName, width-54)))
		}
	}
	if n > mostHandlers {
		printf(b, "%s\n", paint.dim(fmt.Sprintf("%14s %35s  and others; --json has them", "", "")))
	}
}

// quantiles returns p50, p90, p99 and the longest of requests, each as a value or a limit.
func quantiles(l *requests.Lengths) [4][2]time.Duration {
	return [4][2]time.Duration{{l.P50, l.P50Below}, {l.P90, l.P90Below}, {l.P99, l.P99Below}, {l.Max, l.MaxBelow}}
}

// lengths returns the quantiles as text. A limit begins with <.
func lengths(l *requests.Lengths) (text [4]string) {
	for i, x := range quantiles(l) {
		if text[i] = duration(x[0]); x[1] > 0 {
			text[i] = "<" + duration(x[1])
		}
	}
	return text
}

// percentiles returns the quantiles of all requests as text.
func percentiles(r *requests.Requests) (text [4]string) {
	text = lengths(&r.Lengths)
	if r.Lower == nil {
		return text
	}
	most, least := quantiles(&r.Lengths), quantiles(r.Lower)
	for i, low := range lengths(r.Lower) {
		switch {
		case low == text[i]:
		case least[i][0]+least[i][1] > most[i][0]+most[i][1]: // more requests are known to have no sample
			text[i] += ".." + low
		default:
			text[i] = low + ".." + text[i]
		}
	}
	return text
}

// states returns the states of requests, what slow ones do more first.
func states(r *requests.Requests) []string {
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
