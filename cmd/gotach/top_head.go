package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/gotach/profiler/tachyon"
)

// head returns the lines above the table.
func (m *topModel) head() []string {
	state := m.watch.State()
	left := " " + m.paint.bold("gotach top") + "  " + shortName(state.Name)
	if m.look == nil {
		return []string{m.spread(left, ""), ""}
	}
	if s := m.look.Session; s != nil {
		left += "  " + sessionText(s)
	}
	lines := []string{m.spread(left, m.status()+" ")}
	l := m.look
	window := l.To.Sub(l.From)
	text := fmt.Sprintf(" %s until %s", duration(window), l.To.Local().Format("15:04:05"))
	if behind := l.Last.Sub(l.To); behind > 0 && !m.at.IsZero() {
		text += fmt.Sprintf(", %s before the latest", duration(behind))
	}
	text += fmt.Sprintf("  %s", plural(int64(l.Goroutines), "goroutine"))
	if l.MostGoroutines > l.Goroutines { // of many that wait, each gets a second sample only after some time
		text += fmt.Sprintf(" seen, up to %d at once so far", l.MostGoroutines)
	}
	lines = append(lines, m.spread(text, m.chosen()+" "))
	lines = append(lines, m.states(window)...)
	lines = append(lines, m.facts()...)
	if m.height >= tall {
		lines = append(lines, "")
	}
	return append(lines, m.tabs())
}

// factHeight is the number of lines from which on there is room for facts.
const factHeight = 16

// facts returns a line of what is wrong, and one of what is set apart. The first one is always
// there, so that the tables do not jump.
func (m *topModel) facts() []string {
	if m.height < factHeight {
		return nil
	}
	text := m.paint.dim(" " + nothingWrong)
	switch n := len(m.found); {
	case m.foundAt.IsZero():
		text = ""
	case n == 1:
		text = " " + m.paint.bold("1 finding: ") + m.found[0].Text
	case n > 1:
		text = " " + m.paint.bold(fmt.Sprintf("%d findings, first: ", n)) + m.found[0].Text
	}
	lines := []string{m.spread(text, "")}
	if said := apartText(m.look.States.Apart, duration); said != "" {
		end := "; a shows it"
		if m.apart {
			end = "; a leaves it out"
		}
		lines = append(lines, m.spread(m.paint.dim(" "+said+end), ""))
	}
	return lines
}

func shortName(name string) string {
	if isURL(name) {
		return name
	}
	return filepath.Base(name)
}

// sessionText says what program it is.
func sessionText(s *tachyon.Session) string {
	var list []string
	if s.Program != "" {
		list = append(list, filepath.Base(s.Program))
	}
	if s.PID > 0 {
		list = append(list, fmt.Sprintf("pid %d", s.PID))
	}
	if s.Source != "" && s.Rate > 0 {
		list = append(list, fmt.Sprintf("%s %.0f of %d Hz", s.Source, s.RateReached, s.Rate))
	}
	return strings.Join(list, "  ")
}

// status says whether the time goes on.
func (m *topModel) status() string {
	state := m.watch.State()
	switch {
	case m.play && m.paused && m.look != nil && !m.at.Before(m.look.Last):
		return m.paint.bold("■ END")
	case m.paused:
		return m.paint.late(m.paint.bold("‖ PAUSED"))
	case m.play && m.speed != 1:
		return m.paint.good(fmt.Sprintf("► PLAYING %gx", m.speed))
	case m.play:
		return m.paint.good("► PLAYING")
	case state.Notice != "":
		return m.paint.busy("● SILENT")
	case !state.Live:
		return m.paint.bold("■ ENDED")
	}
	return m.paint.good("● LIVE")
}

// chosen says what the user has chosen.
func (m *topModel) chosen() string {
	var list []string
	if m.focus != nil {
		list = append(list, "filter "+m.focus.String())
	}
	if m.idle {
		list = append(list, "with idle time")
	}
	if m.apart {
		list = append(list, "with what is apart")
	}
	if m.cpu && m.view <= 1 {
		list = append(list, "CPU time")
	}
	v := &topViews[m.view]
	list = append(list, "by "+v.sorts[m.sorts[m.view]])
	return strings.Join(list, ", ")
}

// tabs returns the names of the tables, in a narrow terminal only the name of the one that is seen.
func (m *topModel) tabs() string {
	room := m.width
	for _, v := range topViews {
		room -= len(v.name) + 5
	}
	var b strings.Builder
	for i := range topViews {
		n := (i + 1) % len(topViews)
		text := fmt.Sprintf(" %d %s ", n, topViews[n].name)
		if room < 0 && n != m.view {
			text = fmt.Sprintf(" %d ", n)
		}
		if n == m.view {
			b.WriteString(m.paint.with("1;7", "["+text[1:len(text)-1]+"]"))
		} else {
			b.WriteString(text)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// states returns how many goroutines were in each kind of state on average. On a tall terminal it
// shows when they were.
func (m *topModel) states(window time.Duration) []string {
	var list []stateAmount
	all := time.Duration(0)
	for _, a := range stateAmounts(m.look.States) {
		if a.all > 0 && float64(a.all) >= 0.005*float64(window) {
			list = append(list, a)
			all += a.all
		}
	}
	if m.height < tall {
		return append([]string{m.stateBar(list, all)}, m.stateNumbers(list, window)...)
	}
	columns := min(m.width-36, 60) // a series has no more parts
	lines := []string{"", m.paint.bold(fmt.Sprintf(" %-14s%-*s  %8s %8s", "", columns, "GOROUTINES DURING THE WINDOW", "AVERAGE", "MOST"))}
	for _, a := range list {
		average, most := a.numbers(window)
		lines = append(lines, fmt.Sprintf(" %-14s%s  %s %s", a.name, a.paint(m.paint, sparks(a.series, columns)), number(average), number(most)))
	}
	return lines
}

// stateBar shows the shares of the states.
func (m *topModel) stateBar(list []stateAmount, all time.Duration) string {
	var b strings.Builder
	b.WriteByte(' ')
	used, sum, columns := 0, time.Duration(0), max(0, m.width-2)
	for _, a := range list {
		sum += a.all
		to := int(float64(sum)/float64(all)*float64(columns) + 0.5)
		b.WriteString(a.paint(m.paint, strings.Repeat(stateCell(a.name), to-used)))
		used = to
	}
	return b.String()
}

// stateCell is a column of the bar.
func stateCell(name string) string {
	switch name {
	case "on CPU":
		return "█"
	case "no core", "runnable":
		return "▒"
	case "idle":
		return "─"
	}
	return "░"
}

func (m *topModel) stateNumbers(list []stateAmount, window time.Duration) (lines []string) {
	line := ""
	for _, a := range list {
		text := stateCell(a.name) + " " + a.name + " " + strings.TrimSpace(number(float64(a.all)/float64(window)))
		if line != "" && lipgloss.Width(line)+utf8.RuneCountInString(text)+3 > m.width {
			lines, line = append(lines, line), ""
		}
		line += " " + a.paint(m.paint, text) + " "
	}
	return append(lines, line)
}
