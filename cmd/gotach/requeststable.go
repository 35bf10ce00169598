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

// A requestTable is requests as text:
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
type requestTable struct {
	b     bytes.Buffer
	r     *requests.Requests
	paint paint
	width int
}

func (t *requestTable) printf(format string, args ...any) { printf(&t.b, format, args...) }

// head writes the names of columns.
func (t *requestTable) head(format string, names ...any) {
	t.printf("\n%s\n", t.paint.bold(fmt.Sprintf(format, names...)))
}

func (t *requestTable) render(name string) []byte {
	t.counts(name)
	if t.r.Count == 0 {
		t.handlers()
		return t.b.Bytes()
	}
	if t.r.Lower != nil {
		t.printf("%s\n", t.paint.bold("Where a goroutine waits again at one place, another call may have begun. So percentiles are ranges."))
	}
	p := percentiles(t.r)
	t.printf("\np50 %s   p90 %s   p99 %s   max %s\n", t.paint.bold(p[0]), t.paint.bold(p[1]), t.paint.bold(p[2]), t.paint.bold(p[3]))
	if t.r.SlowPerSecond > 0 {
		t.printf("%s a second take over %s\n", digits(t.r.SlowPerSecond), duration(t.r.SlowOver))
	}
	t.handlers()
	t.histogram()
	if t.r.Slow.Count == 0 {
		return t.b.Bytes()
	}
	t.slow()
	t.differences()
	t.repeated()
	t.slowest()
	return t.b.Bytes()
}

// counts writes how many requests there are.
func (t *requestTable) counts(name string) {
	r := t.r
	t.printf("%s %s: %s\n", t.paint.bold(name+":"), requestCount(r.Number), r.What)
	var notes []string
	if r.Seen != r.Count || r.Seen < r.Low {
		notes = append(notes, fmt.Sprintf("%d have a sample", r.Seen))
	}
	if r.TooShort > 0 {
		notes = append(notes, fmt.Sprintf("%d too short to tell", r.TooShort))
	}
	if r.Unfinished > 0 {
		notes = append(notes, unfinished(r))
	}
	if len(notes) > 0 {
		t.printf("%s\n", strings.Join(notes, "; "))
	}
	if r.Idle > 0 {
		t.printf("left out: %s idle of goroutines that have the label but work in the background\n", duration(r.Idle))
	}
}

// histogram writes how many requests have which length.
func (t *requestTable) histogram() {
	t.printf("\n")
	most, wide := 1, 8
	for _, bucket := range t.r.Histogram {
		least, count := inBucket(t.r, bucket)
		most, wide = max(most, least), max(wide, len(count))
	}
	for _, bucket := range t.r.Histogram {
		least, count := inBucket(t.r, bucket)
		n := (2*barWidth*least + most - 1) / most
		from := duration(bucket.From)
		if bucket.From == 0 {
			from = "up to " + duration(bucket.To)
		}
		t.printf("%s\n", strings.TrimRight(fmt.Sprintf("%13s %*s  %s", from, wide, count, t.paint.wait(strings.Repeat("█", n))), " "))
	}
}

// slow writes which states slow requests are in for longer.
func (t *requestTable) slow() {
	r, median := t.r, "near the median"
	if r.P50 == 0 { // the median ones have no sample
		median = "in the middle of those with a sample"
	}
	t.printf("\nThe %d slowest, from %s on, take this much more than %d %s:\n", r.Slow.Count, duration(r.Slow.From), r.Median.Count, median)
	t.printf("%s\n", t.paint.bold(fmt.Sprintf("%8s %8s %8s  %s", "MORE", "MEDIAN", "SLOW", "STATE")))
	for _, state := range states(r) {
		median, slow := r.Median.States[state], r.Slow.States[state]
		t.printf("%8s %8s %8s  %s\n", more(slow-median), duration(median), duration(slow), t.paint.wait(state))
	}
}

// differences writes where slow requests are for longer.
func (t *requestTable) differences() {
	t.head("%8s  %s", "MORE", "AT")
	for i, d := range t.r.Difference {
		if i >= mostDifferences || i > 0 && d.Time < t.r.Difference[0].Time/100 {
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
			at += " " + fileLine(d.File, int(d.Line))
		}
		if d.In != "" {
			at += " in " + profile.FuncName(d.In)
		}
		room := t.width - 11 - utf8.RuneCountInString(state) - utf8.RuneCountInString(at)
		if d.In != "" && room < minName {
			at, room = at[:strings.LastIndex(at, " in ")], minName
		}
		t.printf("%8s  %s %s%s\n", more(d.Time), t.paint.wait(state), shorten(d.Name, max(minName, room)), t.paint.dim(at))
		if text := ranInstead(&d); text != "" {
			t.printf("%8s    %s\n", "", t.paint.dim(cut(text, t.width-12)))
		}
	}
}

// slowest writes the slowest requests.
func (t *requestTable) slowest() {
	t.head("%8s %8s %10s  %-30s  %s", "TIME", "START", "GOROUTINE", "SLOWEST", "LABELS")
	bars := strings.NewReplacer("R", t.paint.busy("█"), "r", t.paint.late("▒"), ".", t.paint.wait("░"))
	for _, x := range t.r.Slowest {
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(x.Labels)) {
			labels = append(labels, k+"="+x.Labels[k])
		}
		text := cut(oneLine(strings.Join(labels, " ")), max(minName, t.width-62))
		line := fmt.Sprintf("%8s %8s %10d  %s  %s", duration(x.Time), duration(time.Duration(x.Start)*time.Microsecond), x.Goroutine, bars.Replace(x.Timeline), text)
		t.printf("%s\n", strings.TrimRight(line, " "))
	}
}

// ranInstead says who had the cores while slow requests waited for one, "" if nobody had much of
// them.
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

// repeated writes at which lines each request waited several times.
func (t *requestTable) repeated() {
	for i := range t.r.Repeats {
		x := &t.r.Repeats[i]
		if i == mostRepeats || x.Time < t.r.Repeats[0].Time/10 {
			break
		}
		if i == 0 {
			t.head("%8s %8s  %s", "ALL TIME", "EACH", "WAITS AGAIN AND AGAIN AT")
		}
		each := fmt.Sprintf("≥%.1f×", x.Each())
		state := "[" + x.State + "]"
		t.printf("%8s %8s  %s %s\n", duration(x.Time), each, t.paint.wait(state), site(t.paint, x.Func, fileLine(x.File, x.Line), t.width-20-utf8.RuneCountInString(state)))
	}
}

// inBucket returns how many requests a class of lengths has at least, and their number as text. If
// the number of all is not known, that of the shortest is not, as most of these have no sample.
func inBucket(r *requests.Requests, x requests.Bucket) (least int, count string) {
	if rest := r.Count - x.Count; x.From == 0 && !r.Known() {
		least = max(0, r.Low-rest)
		return least, shortCount(requests.Number{Count: least, Low: least, High: max(0, r.High-rest)})
	}
	return x.Count, fmt.Sprint(x.Count)
}

// unfinished says how many requests have not ended, and for how long they have lasted if that is
// longer than all the others took.
func unfinished(r *requests.Requests) string {
	text := fmt.Sprintf("%d not finished", r.Unfinished)
	if r.Oldest > 0 {
		text += ", after up to " + duration(r.Oldest)
	}
	return text
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

// handlers writes the requests of each kind, and of each handler. If all requests are of one
// handler it writes nothing.
func (t *requestTable) handlers() {
	rows := t.r.Rows
	if len(rows) < 3 && (len(rows) == 0 || !rows[0].Aside) {
		return
	}
	t.head("%14s %8s %8s %8s %8s  %s", "REQUESTS", "P50", "P90", "P99", "MAX", "HANDLER")
	n := 0
	for _, kind := range rows {
		if !kind.All {
			continue
		}
		for _, x := range rows {
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
			t.printf("%14s %8s %8s %8s %8s  %s\n", shortCount(x.Number), p[0], p[1], p[2], p[3], shorten(name, max(minName, t.width-54)))
		}
	}
	if n > mostHandlers {
		t.printf("%s\n", t.paint.dim(fmt.Sprintf("%14s %35s  and others; --json has them", "", "")))
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
