package main

import (
	"regexp"
	"time"

	tea "charm.land/bubbletea/v2"
)

// key does what a key says.
func (m *topModel) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.typing:
		return m.edit(k)
	case m.help:
		if by := helpScroll[name]; by != 0 && m.helpLong {
			m.helpAt += by
			return nil
		}
		m.help, m.helpAt = false, 0
		if name != "q" {
			return nil
		}
	}
	switch name {
	case "q":
		return tea.Quit
	case "?", "h", "f1":
		m.help = true
	case "0", "1", "2", "3", "4":
		return m.show(int(name[0] - '0'))
	case "tab":
		return m.show((m.view + 1) % len(topViews))
	case "shift+tab":
		return m.show((m.view + len(topViews) - 1) % len(topViews))
	case "up", "k":
		m.scroll--
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll -= m.page
	case "pgdown":
		m.scroll += m.page
	case "home":
		m.scroll = 0
	case "end":
		m.scroll = m.lines
	case "/":
		m.typing, m.input = true, ""
		if m.focus != nil {
			m.input = m.focus.String()
		}
	case "esc":
		m.focus, m.notice = nil, ""
		return m.refreshed()
	default:
		return m.change(name)
	}
	return nil
}

// helpScroll is by how many lines keys scroll the help.
var helpScroll = map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -10, "pgdown": 10, "home": -1000, "end": 1000}

// show changes to another table.
func (m *topModel) show(view int) tea.Cmd {
	m.view, m.scroll = view, 0
	return m.refreshed()
}

// change does what a key says that changes the numbers.
func (m *topModel) change(name string) tea.Cmd {
	switch name {
	case "s":
		m.sorts[m.view] = (m.sorts[m.view] + 1) % len(topViews[m.view].sorts)
	case "S":
		m.sorts[m.view] = (m.sorts[m.view] + len(topViews[m.view].sorts) - 1) % len(topViews[m.view].sorts)
	case "c":
		m.cpu = !m.cpu
	case "i":
		m.idle = !m.idle
	case "a":
		m.apart = !m.apart
	case "w":
		m.window = min(m.window+1, len(m.windows)-1)
	case "W":
		m.window = max(m.window-1, 0)
	case "space":
		m.pause()
	case "left":
		m.move(-m.windows[m.window] / 2)
	case "right":
		m.move(m.windows[m.window] / 2)
	case "l":
		m.latest()
	case ">", ".":
		m.speed = min(64, 2*m.speed)
		return nil
	case "<", ",":
		m.speed = max(1./16, m.speed/2)
		return nil
	default:
		return nil
	}
	return m.refreshed()
}

// pause stops the time, or lets it go on.
func (m *topModel) pause() {
	if m.look == nil {
		return
	}
	m.paused = !m.paused
	switch {
	case m.paused && m.at.IsZero():
		m.at = m.look.To
	case !m.paused && !m.play:
		m.at = time.Time{}
	case !m.paused && !m.at.Before(m.look.Last): // play it again
		m.at = m.begin()
	}
	m.shown = time.Now()
}

// move goes to another time.
func (m *topModel) move(d time.Duration) {
	if m.look == nil {
		return
	}
	if m.at.IsZero() {
		m.at, m.paused = m.look.To, true
	}
	m.at = m.at.Add(d)
	if first := m.begin(); m.at.Before(first) {
		m.at = first
	}
	if m.at.After(m.look.Last) {
		m.at = m.look.Last
	}
}

// begin returns where the first window ends. That of a short file ends before its latest sample, so
// that there is something to play.
func (m *topModel) begin() time.Time {
	return m.look.First.Add(min(refresh, m.look.Last.Sub(m.look.First)/2))
}

// latest goes to the latest time.
func (m *topModel) latest() {
	if m.look == nil {
		return
	}
	if m.at, m.paused = (time.Time{}), false; m.play {
		m.at, m.paused = m.look.Last, true
	}
}

// edit changes the filter that is typed.
func (m *topModel) edit(k tea.KeyPressMsg) tea.Cmd {
	switch name := k.String(); name {
	case "esc":
		m.typing = false
	case "enter":
		return m.filter()
	case "backspace":
		if r := []rune(m.input); len(r) > 0 {
			m.input = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.input = ""
	default:
		m.input += k.Key().Text
	}
	return nil
}

// filter uses the filter that was typed.
func (m *topModel) filter() tea.Cmd {
	var re *regexp.Regexp
	if m.input != "" {
		var err error
		if re, err = pattern(m.input); err != nil {
			m.notice = err.Error()
			return nil
		}
	}
	m.typing, m.notice, m.focus, m.scroll = false, "", re, 0
	return m.refreshed()
}
