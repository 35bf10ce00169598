package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// tall is the number of lines from which on there is room for the states over time, and for all
// tables.
const tall = 40

// View implements tea.Model.
func (m *topModel) View() tea.View {
	lines := m.screen()
	for i, line := range lines {
		line = drawn(line)
		if m.ascii {
			line = ascii.Replace(line)
		}
		if lipgloss.Width(line) > m.width {
			line = lipgloss.NewStyle().MaxWidth(m.width).Render(line)
		}
		lines[i] = line
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = "gotach top"
	return v
}

// screen returns the lines of the screen: the head, a table, and the keys.
func (m *topModel) screen() []string {
	var table []string
	head := m.head()
	room := max(1, m.height-len(head)-1)
	switch {
	case m.help:
		table = append([]string{""}, topHelp(m.width)...)
		if len(table) > room { // without the tables' head
			head, table = head[:1], table[1:]
			room = max(1, m.height-len(head)-1)
		}
		m.helpLong = len(table) > room
		m.helpAt = max(0, min(m.helpAt, len(table)-room))
		table = table[m.helpAt:]
	case m.look == nil:
		table = []string{"", m.waiting()}
	case m.view == 0:
		table = m.all(room)
	default:
		title, lines := m.table(m.view)
		m.page, m.lines = room-1, len(lines)
		m.scroll = max(0, min(m.scroll, len(lines)-m.page))
		table = append([]string{title}, lines[m.scroll:]...)
	}
	for len(table) < room {
		table = append(table, "")
	}
	return append(append(head, table[:room]...), m.foot())
}

// waiting says why there is nothing to see yet.
func (m *topModel) waiting() string {
	if done, all := m.watch.Progress(); all > 0 {
		return fmt.Sprintf(" Reading the file: %d %% of %d MB", 100*done/all, all>>20)
	}
	return " Waiting for the first samples."
}

// spread returns left and right parts of a line.
func (m *topModel) spread(left, right string) string {
	left, right = oneLine(left), oneLine(right)
	gap := m.width - lipgloss.Width(left) - lipgloss.Width(right)
	if gap < 1 {
		left = lipgloss.NewStyle().MaxWidth(max(0, m.width-lipgloss.Width(right)-2)).Render(left) + "…"
		gap = max(1, m.width-lipgloss.Width(left)-lipgloss.Width(right))
	}
	return left + strings.Repeat(" ", gap) + right
}

// foot returns the last line: keys, or the filter that is typed, or what is wrong.
func (m *topModel) foot() string {
	notice := cmp.Or(m.notice, m.watch.State().Notice, m.watch.State().Ended)
	switch {
	case m.typing && m.notice != "":
		return " /" + m.input + "█  " + m.paint.busy(m.notice)
	case m.typing:
		return " /" + m.input + "█  " + m.paint.dim("a regular expression, enter")
	case m.help && m.helpLong:
		return " ↑ ↓ scroll, any other key goes back"
	case m.help:
		return " any key goes back"
	case notice != "":
		notice, _, _ = strings.Cut(notice, "\n")
		return " " + m.paint.busy(notice)
	}
	keys := []string{"q quit", "? keys", "space pause", "/ filter", "s sort", "c CPU", "w window", "← → time", "i idle", "l latest"}
	if m.play {
		keys = slices.Insert(keys, 3, "< > speed")
	}
	line := ""
	for _, k := range keys {
		if utf8.RuneCountInString(line)+len(k)+3 > m.width {
			break
		}
		line += " " + k + " "
	}
	return m.paint.dim(line)
}

// all returns the tables one below the other, as many as there is room for.
func (m *topModel) all(room int) []string {
	type part struct {
		title string
		lines []string
		shown int
	}
	var parts []part
	left := room
	for v := 1; v < len(topViews) && v <= max(1, (room+1)/4); v++ { // a title, two lines and one between tables
		title, lines := m.table(v)
		parts = append(parts, part{title: title, lines: lines})
		left -= 2
	}
	left++
	for more := true; more && left > 0; {
		more = false
		for i := range parts {
			if parts[i].shown < len(parts[i].lines) && left > 0 {
				parts[i].shown++
				left--
				more = true
			}
		}
	}
	var out []string
	for i, p := range parts {
		if i > 0 {
			out = append(out, "")
		}
		out = append(append(out, p.title), p.lines[:p.shown]...)
	}
	m.page, m.lines = room, 0
	return out
}

// table returns the title and the lines of a table.
func (m *topModel) table(view int) (title string, lines []string) {
	l := m.look
	switch {
	case view == 1 && l.Functions != nil:
		return m.functions(l.Functions)
	case view == 2 && l.Blocked != nil:
		return m.blocked(l.Blocked)
	case view == 3 && l.Locks != nil:
		return m.locks(l.Locks)
	case view == 4 && l.Groups != nil:
		return m.groups(l.Groups)
	}
	return "", nil // it is being made
}

// none says that a table is empty.
func (m *topModel) none(what string) []string {
	if m.focus != nil {
		what += " that matches " + m.focus.String()
	}
	return []string{" " + m.paint.dim("no "+what+" in this window")}
}
