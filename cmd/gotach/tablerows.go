package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/profile"
)

// rows writes the table.
func (t *reportTable) rows() {
	// For goroutines and states self is the same as total, so there is one column.
	one := slices.Contains([]profile.By{profile.ByGoroutine, profile.ByState, profile.ByGroup, profile.ByBlocked}, t.o.By)
	byTotal := t.o.Sort == profile.SortTotal
	called := false
	most := time.Duration(0)
	for i := range t.r.Rows {
		row := &t.r.Rows[i]
		called = called || row.Called != nil
		wall, _ := t.ordered(row)
		most = max(most, wall)
	}
	legend, amount := legend, "TIME"
	if t.instant() {
		legend, amount = "█ran ░wait", "COUNT"
	}
	if !t.knowsCPU() {
		legend = ""
	}
	left, right, share := "SELF", "TOTAL", ""
	if byTotal {
		left, right = right, left
	}
	if one {
		left = amount
	}
	if t.heading() == blockedAt {
		share = "OF WAIT"
	}
	head := fmt.Sprintf("%7s %7s  %-*s  ", left, share, barWidth, legend)
	if !one {
		head += fmt.Sprintf("%7s %7s  ", right, "")
	}
	if called {
		head += fmt.Sprintf("%8s  ", "CALLED")
	}
	head += t.lastHeads()
	room := t.width - utf8.RuneCountInString(head)
	t.line(t.paint.bold(head + t.heading()))
	for i := range t.r.Rows {
		row := &t.r.Rows[i]
		first, cpu := t.ordered(row)
		second, noCore := row.Total, row.SelfNoCore
		if byTotal {
			second, noCore = row.Self, row.TotalNoCore
		}
		printf(&t.b, "%7s %7s  %s  ", t.amount(first), t.share(first), t.bar(first, cpu, noCore, most))
		if !one {
			printf(&t.b, "%7s %7s  ", t.amount(second), t.share(second))
		}
		if called {
			n := ""
			if row.Called != nil {
				n = fmt.Sprint(*row.Called)
			}
			printf(&t.b, "%8s  ", n)
		}
		t.lastCells(first, cpu, row.Series)
		printf(&t.b, "%s\n", t.place(row, room))
	}
}

// lastHeads returns the heads of the columns before the names.
func (t *reportTable) lastHeads() (heads string) {
	if t.knowsCPU() {
		ran := "CPU"
		if t.instant() {
			ran = "RAN"
		}
		heads = fmt.Sprintf("%7s  ", ran)
	}
	if t.spark {
		heads += fmt.Sprintf("%-*s  ", sparkWidth, "WHEN")
	}
	return heads
}

// lastCells writes these columns of a row.
func (t *reportTable) lastCells(wall, cpu time.Duration, series []float32) {
	if t.knowsCPU() {
		printf(&t.b, "%7s  ", t.amount(cpu))
	}
	if t.spark {
		colour := t.paint.wait
		if 2*cpu > wall {
			colour = t.paint.busy
		}
		printf(&t.b, "%s  ", colour(sparkline(series)))
	}
}

const blockedAt = "BLOCKED AT"

// heading is what a row is.
func (t *reportTable) heading() string {
	switch key, isLabel := strings.CutPrefix(t.group, report.ByLabel); {
	case isLabel:
		return "LABEL " + key
	case t.group == report.ByEntry:
		return "CREATED BY"
	case t.group == report.ByRan:
		return "HAD THE CORES MEANWHILE"
	case t.group != "":
		return strings.ToUpper(t.group)
	case t.o.By == profile.ByBlocked:
		return blockedAt
	}
	return strings.ToUpper(string(t.o.By))
}

// ordered returns the wall and CPU time of a row, self or total.
func (t *reportTable) ordered(row *profile.Row) (wall, cpu time.Duration) {
	if t.o.Sort == profile.SortTotal {
		return row.Total, row.TotalCPU
	}
	return row.Self, row.SelfCPU
}

// share returns d as a percentage of what is shown.
func (t *reportTable) share(d time.Duration) string { return t.paint.share(d, t.r.Shown) }

// share returns d as a percentage of all, in bold from 10 % on.
func (p paint) share(d, all time.Duration) string {
	s := fmt.Sprintf("%7s", percent(d, all))
	if all > 0 && d >= all/10 {
		return p.bold(s)
	}
	return s
}

// bar returns a bar for a time, relative to the longest time. The part on CPU comes first, then
// the part without a core.
func (t *reportTable) bar(wall, cpu, noCore, most time.Duration) string {
	if most <= 0 {
		return strings.Repeat(" ", barWidth)
	}
	cells := func(d time.Duration) int { return int(float64(d)/float64(most)*barWidth + 0.5) }
	all := cells(wall)
	on := min(cells(cpu), all)
	if !t.knowsCPU() {
		on = all
	}
	late := max(on, min(cells(cpu+noCore), all)) - on
	return t.paint.busy(strings.Repeat("█", on)) + t.paint.late(strings.Repeat("▒", late)) +
		t.paint.wait(strings.Repeat("░", all-on-late)) + strings.Repeat(" ", barWidth-all)
}

// place returns a row's name and place in the source in at most room columns. For rows by
// line the place comes first.
func (t *reportTable) place(row *profile.Row, room int) string {
	name, at := row.Name, ""
	if row.File != "" && t.o.By != profile.ByFile {
		at = baseName(row.File)
		if row.Line > 0 {
			at += fmt.Sprintf(":%d", row.Line)
		}
	}
	if row.FirstLine > 0 {
		lines := at + fmt.Sprintf(" (%d–%d)", row.FirstLine, row.LastLine)
		if utf8.RuneCountInString(name+lines)+2 <= room {
			at = lines
		}
	}
	if t.o.By != profile.ByLine {
		at = shortenPlace(at, name, room)
	}
	left := room - utf8.RuneCountInString(at) - 2
	switch {
	case at == "":
		name = shorten(name, room)
		if row.File == "" && strings.HasPrefix(name, "[") {
			return t.paint.wait(name)
		}
		return name
	case t.o.By == profile.ByLine && left < minName/2:
		return shorten(at, room)
	case t.o.By == profile.ByLine:
		return at + "  " + t.paint.dim(shorten(name, left))
	case left < min(minName, least(name)):
		return shorten(name, room)
	}
	return shorten(name, left) + "  " + t.paint.dim(at)
}

// instant reports whether the profile is that of one instant: its amounts are numbers of
// goroutines.
func (t *reportTable) instant() bool {
	return t.p.Metadata != nil && t.p.Metadata.Session != nil && t.p.Metadata.Session.Instant
}

func (t *reportTable) amount(d time.Duration) string { return unitless(d, t.r.Unitless) }

// unitless returns a time as text, or a plain number if it has no unit.
func unitless(d time.Duration, is bool) string {
	if !is {
		return duration(d)
	}
	n := d / time.Microsecond
	if n < 100_000 {
		return strconv.FormatInt(int64(n), 10)
	}
	f, unit := float64(n)/1e3, 0
	for ; f >= 999.5 && unit < len(powers)-1; unit++ {
		f /= 1e3
	}
	return digits(f) + powers[unit:unit+1]
}
