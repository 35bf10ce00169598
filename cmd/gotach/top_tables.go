package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// place returns a row's name and place in the source.
func (m *topModel) place(r *profile.Report, row *profile.Row, room int) string {
	t := reportTable{paint: m.paint, r: r, o: profile.ReportOptions{By: profile.ByFunction}}
	return t.place(row, room)
}

// narrow reports whether the terminal has few columns, so that tables have only the most important
// ones.
func (m *topModel) narrow() bool { return m.width < 100 }

// trendWidth is the number of columns of a trend.
func (m *topModel) trendWidth() int {
	if m.narrow() {
		return 6
	}
	return sparkWidth
}

// trend shows when the time of a row was.
func (m *topModel) trend(row *profile.Row) string {
	text := sparks(row.Series, m.trendWidth())
	if row.SelfCPU*2 > row.Self {
		return m.paint.busy(text)
	}
	return m.paint.wait(text)
}

func (m *topModel) functions(r *profile.Report) (string, []string) {
	head := fmt.Sprintf(" %7s %7s  %7s  ", "SELF", "", "TOTAL")
	if m.cpu {
		head = fmt.Sprintf(" %7s %7s  %7s  ", "CPU", "", "TOTAL")
	} else {
		head += fmt.Sprintf("%7s  ", "CPU")
	}
	head += fmt.Sprintf("%-*s  ", m.trendWidth(), "TREND")
	room := m.width - utf8.RuneCountInString(head)
	var lines []string
	for i := range r.Rows {
		row := &r.Rows[i]
		cpu := ""
		if !m.cpu {
			cpu = fmt.Sprintf("%7s  ", duration(row.SelfCPU))
		}
		lines = append(lines, fmt.Sprintf(" %7s %s  %7s  %s%s  %s", duration(row.Self), m.paint.share(row.Self, r.Shown), duration(row.Total), cpu, m.trend(row), m.place(r, row, room)))
	}
	if len(lines) == 0 {
		lines = m.none("function")
	}
	return m.paint.bold(head + "FUNCTION"), lines
}

func (m *topModel) blocked(r *profile.Report) (string, []string) {
	head := fmt.Sprintf(" %7s %7s  ", "TIME", "OF WAIT")
	if !m.narrow() {
		head += fmt.Sprintf("%7s  ", "AVERAGE")
	}
	head += fmt.Sprintf("%-*s  ", m.trendWidth(), "TREND")
	room := m.width - utf8.RuneCountInString(head)
	rows := slices.Clone(r.Rows)
	if m.view == 2 && m.sorts[m.view] == 1 {
		slices.SortStableFunc(rows, byGrowth)
	}
	window := m.look.To.Sub(m.look.From)
	var lines []string
	for i := range rows {
		row := &rows[i]
		number := ""
		if !m.narrow() {
			number = fmt.Sprintf("%7s  ", average(row.Self, window))
		}
		lines = append(lines, fmt.Sprintf(" %7s %s  %s%s  %s", duration(row.Self), m.paint.share(row.Self, r.Shown), number, m.trend(row), m.place(r, row, room)))
	}
	if len(lines) == 0 {
		lines = m.none("blocked goroutine")
	}
	return m.paint.bold(head + "BLOCKED AT"), lines
}

// average returns how many goroutines there were on average.
func average(d, window time.Duration) string {
	if window <= 0 {
		return "-"
	}
	return strings.TrimSpace(number(float64(d) / float64(window)))
}

// growth returns by how much the second half of a series is more than the first one.
func growth(list []float32) (sum float32) {
	for i, v := range list {
		if 2*i < len(list) {
			v = -v
		}
		sum += v
	}
	return sum
}

func byGrowth(a, b profile.Row) int { return cmp.Compare(growth(b.Series), growth(a.Series)) }

func (m *topModel) groups(r *profile.Report) (string, []string) {
	head := fmt.Sprintf(" %7s  ", "AVERAGE")
	if !m.narrow() {
		head += fmt.Sprintf("%7s  ", "MOST")
	}
	head += fmt.Sprintf("%7s  %-*s  %-*s  ", "CPU", m.trendWidth(), "TREND", m.growthWidth(), "GROWTH")
	room := m.width - utf8.RuneCountInString(head)
	window := m.look.To.Sub(m.look.From)
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row profile.Row) bool { return row.Total == 0 || noGoroutine(row.Name) })
	if m.view == 4 {
		switch m.sorts[m.view] {
		case 1:
			slices.SortStableFunc(rows, func(a, b profile.Row) int { return cmp.Compare(b.TotalCPU, a.TotalCPU) })
		case 2:
			slices.SortStableFunc(rows, byGrowth)
		}
	}
	var lines []string
	for i := range rows {
		row := &rows[i]
		number := fmt.Sprintf("%7s  ", average(row.Total, window))
		if !m.narrow() {
			most := row.Total
			if len(row.Series) > 0 {
				most = max(most, time.Duration(slices.Max(row.Series)*float32(len(row.Series))))
			}
			number += fmt.Sprintf("%7s  ", average(most, window))
		}
		growing := fmt.Sprintf("%-*s", m.growthWidth(), m.growing(row))
		if strings.HasPrefix(growing, "LEAK") {
			growing = m.paint.busy(growing)
		}
		lines = append(lines, fmt.Sprintf(" %s%7s  %s  %s  %s", number, duration(row.TotalCPU), m.paint.wait(sparks(row.Series, m.trendWidth())), growing, m.place(r, row, room)))
	}
	if len(lines) == 0 {
		lines = m.none("goroutine")
	}
	return m.paint.bold(head + "CREATED BY"), lines
}

// noGoroutine reports whether a group is time of no goroutine.
func noGoroutine(name string) bool {
	switch name {
	case tachyon.FuncScheduler, tachyon.FuncC, tachyon.FuncProfiler, tachyon.FuncNotSeen:
		return true
	}
	return false
}

// growthWidth is the number of columns of what growing returns.
func (m *topModel) growthWidth() int {
	if m.narrow() {
		return 9
	}
	return 14
}

// growing says by how many goroutines a minute a group grows.
func (m *topModel) growing(row *profile.Row) string {
	if m.look.Leaks == nil {
		return ""
	}
	sum, suspect := 0.0, false
	for i := range m.look.Leaks.Groups {
		g := &m.look.Leaks.Groups[i]
		if profile.FuncName(g.CreatedBy) == row.Name && g.CreatedAt == fmt.Sprintf("%s:%d", row.File, row.Line) {
			sum += g.PerMinute
			suspect = suspect || g.Suspect
		}
	}
	switch {
	case sum == 0:
		return ""
	case suspect && m.narrow():
		return fmt.Sprintf("LEAK%+.0f", sum)
	case suspect:
		return fmt.Sprintf("LEAK %+.0f/min", sum)
	}
	return fmt.Sprintf("%+.0f/min", sum)
}
