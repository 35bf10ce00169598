package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A reportTable prints a report as text:
//
//	demo.tach: demo, 3.0 s from 2026-11-21 07:20:45, 41980 samples of 14 goroutines
//	native source, 998 of 1000 ticks a second
//	41.9 s of all goroutines together, 3.02 s of it on CPU (7.2 %)
//
//	  SELF              ON CPU ██ WAITING ░░   TOTAL          CPU  FUNCTION
//	 12.5s  31.2 %  ██████░░                   12.6s  31.5 %  8.2s  main.hot  main.go:41
type reportTable struct {
	paint  paint
	width  int
	o      profile.ReportOptions
	r      *profile.Report
	p      *profile.Profile
	name   string // name of the file
	format string
	choice *stream.Selection // nil: all samples
	group  string            // as in analyze.Options
	weight string            // likewise
	spark  bool              // rows show when their time was

	unfinished bool // a file is not finished
	sourceLast bool // how the session sampled stands below the table

	b bytes.Buffer
}

const barWidth = 10

// legend is the heading of the bars. It has barWidth columns.
const legend = "█CPU ░wait"

func (t *reportTable) render() []byte {
	t.header()
	t.b.WriteByte('\n')
	if len(t.r.Rows) == 0 {
		t.empty()
		return t.b.Bytes()
	}
	t.rows()
	if t.r.Left > 0 {
		printf(&t.b, "%s\n", t.paint.dim(fmt.Sprintf("%d more rows; --top 0 shows all", t.r.Left)))
	}
	return t.b.Bytes()
}

// empty says why there is no row.
func (t *reportTable) empty() {
	why := "The file has no samples."
	switch {
	case t.r.Samples > 0 && t.o.Focus == nil && t.o.Ignore == nil:
		why = "There is nothing to show."
	case t.r.Samples > 0:
		why = "No stack matches --focus and --ignore."
	}
	t.line(why)
}

// header writes the lines above the table.
func (t *reportTable) header() {
	t.title()
	if m := t.p.Metadata; m != nil && m.Session != nil {
		s := m.Session
		if s.Source != "" && !t.sourceLast { // JSON lines do not say it
			t.source()
		}
		switch {
		case s.Error == tachyon.NotStopped && t.unfinished: // the command has said so
		case s.Error == tachyon.NotStopped:
			t.line(s.Error)
		case s.Error != "":
			t.text(t.paint.busy, "error: "+s.Error)
		}
	}
	if t.choice != nil {
		t.text(nil, "selected: "+t.choice.String())
	}
	what := t.all()
	if t.r.Elsewhere > 0 {
		no := duration(t.r.Elsewhere) + " of CPU that no goroutine used"
		if utf8.RuneCountInString(what+no)+2 > t.width {
			t.text(nil, what)
			what = no
		} else {
			what += "; " + no
		}
	}
	t.text(nil, what)
	t.noCore()
	if t.r.Idle > 0 {
		idle := fmt.Sprintf("%s of it idle (%s)", t.amount(t.r.Idle), percent(t.r.Idle, t.r.Total))
		if !t.p.HasIdle {
			idle += ": left out, --idle shows it"
		}
		t.text(nil, idle)
	}
	t.apart()
	t.matched()
}

// title writes the line that says what was recorded, when and for how long.
func (t *reportTable) title() {
	name := t.name + ":"
	var facts []string
	if t.p.Program != "" {
		facts = append(facts, filepath.Base(t.p.Program))
	}
	when := ""
	if t.p.Duration > 0 {
		when = duration(t.p.Duration)
	}
	if t.p.Metadata != nil && !t.p.Start.IsZero() {
		from := " from 2006-01-02 15:04:05"
		if t.instant() {
			from = "at 2006-01-02 15:04:05"
		}
		when += t.p.Start.Local().Format(from)
	}
	if when != "" {
		facts = append(facts, strings.TrimSpace(when))
	}
	count := plural(t.r.Samples, "sample")
	switch {
	case t.instant():
		count = fmt.Sprintf("process %d", t.p.Metadata.Session.PID)
	case t.r.Unitless:
		count = plural(int64(len(t.p.Records)), "different stack")
	case t.format == "spx": // SPX counts calls, not samples
		count = plural(t.r.Samples, "call")
	case t.format == "nytprof" && t.p.Interval == 0: // Perl counts statements, not samples
		count = plural(t.r.Samples, "statement")
	}
	if t.r.Goroutines > 0 && !t.instant() {
		count += " of " + plural(int64(t.r.Goroutines), "goroutine")
	}
	facts = append(facts, count)
	if t.p.Metadata == nil {
		facts = append(facts, t.format)
	}
	t.text(func(l string) string {
		if rest, first := strings.CutPrefix(l, name); first {
			return t.paint.bold(name) + rest
		}
		return l
	}, name+" "+strings.Join(facts, ", "))
}

// all says how much time there is in all, and what it is the time of.
func (t *reportTable) all() string {
	own := t.r.Total - t.r.Elsewhere
	what := t.amount(t.r.Total) + " in all"
	switch {
	case t.group == report.ByRan:
		return duration(t.r.Total) + " in which goroutines waited for a core"
	case t.instant():
		return fmt.Sprintf("%s, of which %s ran", plural(int64(t.r.Total/time.Microsecond), "goroutine"), t.amount(t.r.TotalCPU))
	case t.weight == "cpu":
		return duration(t.r.Total) + " on CPU"
	case t.weight == "latency":
		what = duration(t.r.Total) + " on the wall clock, shared by what ran or waited at each instant"
	case t.r.Unitless:
		what += ": samples, or " + duration(t.r.Total) + " if its weights are in µs, as gotach writes them"
	case t.r.Goroutines > 1:
		what = duration(own) + " of all goroutines together"
	case t.r.Elsewhere > 0:
		what = duration(own) + " of one goroutine"
	}
	if t.knowsCPU() {
		cpu := t.r.TotalCPU - t.r.Elsewhere
		what += fmt.Sprintf(", %s of it on CPU (%s)", duration(cpu), percent(cpu, own))
	}
	return what
}

// matched writes a line about what --focus and --ignore leave.
func (t *reportTable) matched() {
	var chosen []string
	if t.o.Focus != nil {
		chosen = append(chosen, fmt.Sprintf("focus %q", t.o.Focus))
	}
	if t.o.Ignore != nil {
		chosen = append(chosen, fmt.Sprintf("ignore %q", t.o.Ignore))
	}
	if chosen == nil {
		return
	}
	refer := ""
	if t.r.Shown > 0 {
		refer = ", percentages refer to it"
	}
	t.text(nil, fmt.Sprintf("%s of it shown (%s)%s: %s", t.amount(t.r.Shown), percent(t.r.Shown, t.r.Total), refer, strings.Join(chosen, ", ")))
}

// apart writes a line about what is set apart.
func (t *reportTable) apart() {
	text := apartText(t.r.Apart, t.amount)
	if text == "" {
		return
	}
	if !t.p.HasApart {
		text += "; --apart shows it"
	}
	t.text(nil, text)
}

// apartText says what is set apart, and how much it is; "" if nothing is.
func apartText(list []profile.Apart, amount func(time.Duration) string) string {
	var parts []string
	for i := range list {
		parts = append(parts, list[i].What+" "+amount(list[i].Wall))
	}
	if len(parts) == 0 {
		return ""
	}
	return "set apart: " + strings.Join(parts, ", ")
}

// source writes a line about how a session sampled.
func (t *reportTable) source() {
	s := t.p.Metadata.Session
	if s.Instant {
		t.text(nil, fmt.Sprintf("%s file, %s %s/%s", s.Source, s.GoVersion, s.GOOS, s.GOARCH))
		return
	}
	source := fmt.Sprintf("%s source, %.0f of %d ticks a second", s.Source, s.RateReached, s.Rate)
	if s.Dropped > 0 {
		source += fmt.Sprintf(", %s dropped", plural(s.Dropped, "sample"))
	}
	if s.GoVersion != "" {
		source += fmt.Sprintf(", %s %s/%s", s.GoVersion, s.GOOS, s.GOARCH)
	}
	t.text(nil, source)
	if s.Kept != "" {
		t.text(nil, "kept by the program: "+s.Kept)
	}
	if s.Unwritten > 0 {
		t.text(t.paint.late, duration(s.Unwritten)+" are missing at the end of a file: the disk was full or failed")
	}
	if all := s.Samples + s.Dropped; s.Dropped > all/100 && s.Unwritten == 0 {
		t.text(t.paint.late, fmt.Sprintf("%s of all samples were dropped, %s because a stack could not be read",
			percent(time.Duration(s.Dropped), time.Duration(all)), percent(time.Duration(s.Torn), time.Duration(all))))
	}
}

// noCore writes lines about the CPU quota, if that stopped the program, and about the time in
// which the kernel gave running goroutines no core, if that is much.
func (t *reportTable) noCore() {
	ran := t.r.NoCore + t.r.TotalCPU
	throttled := false
	if m := t.p.Metadata; m != nil && m.Session != nil && m.Session.Throttled > 0 {
		throttled = true
		of := ""
		if m.Session.ThrottledOf > 0 {
			of = fmt.Sprintf(", of %s in all: not known how much of it in this part", duration(m.Session.ThrottledOf))
		}
		t.text(t.paint.late, fmt.Sprintf("throttled by the CPU quota: %s in %s%s", duration(m.Session.Throttled), plural(m.Session.ThrottledPeriods, "period"), of))
	}
	if t.group != report.ByRan && t.r.NoCore > 0 && (throttled || t.r.NoCore >= ran/50) {
		t.text(t.paint.late, fmt.Sprintf("running without a core (▒): %s, %s of the time in which goroutines ran",
			duration(t.r.NoCore), percent(t.r.NoCore, ran)))
	}
}

// knowsCPU reports whether the profile has CPU times. Some formats, such as Perl's, have only
// one kind of time, and goroutines that wait for a core use none.
func (t *reportTable) knowsCPU() bool {
	return t.group != report.ByRan && (t.p.Metadata != nil || t.r.TotalCPU > 0)
}

// text writes a sentence of the header, broken between words where it is wider than the terminal.
// paint may be nil.
func (t *reportTable) text(paint func(string) string, s string) {
	lines := []string{s}
	if utf8.RuneCountInString(s) > t.width {
		lines = wrap(s, t.width, 2)
	}
	for _, l := range lines {
		if paint != nil {
			l = paint(l)
		}
		t.line(l)
	}
}

// line writes one line.
func (t *reportTable) line(s string) { printf(&t.b, "%s\n", s) }
