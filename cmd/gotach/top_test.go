package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/gotach/profiler/cmd/gotach/internal/top"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// A topScreen is a model without a terminal.
type topScreen struct {
	t *testing.T
	m *topModel
}

// newTopScreen returns the screen of a finished file of a second.
func newTopScreen(t *testing.T, p paint, unicode bool) *topScreen {
	t.Helper()
	return newTopScreenOf(t, contends, p, unicode)
}

func newTopScreenOf(t *testing.T, fill func(*fixture, []string), p paint, unicode bool) *topScreen {
	path := filepath.Join(t.TempDir(), "locks.tach")
	writeFixture(path, fill)
	w := testenv.Closes(t, testenv.Must(top.File(path)))
	s := &topScreen{t, newTopModel(t.Context(), w, 10*time.Second, p, unicode)}
	s.m.after = func(time.Duration, func(time.Time) tea.Msg) tea.Cmd { return nil }
	s.do(s.m.Init())
	s.press("l") // the end of the file
	return s
}

// do runs commands and what follows from them.
func (s *topScreen) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	msg := cmd()
	if list, ok := msg.(tea.BatchMsg); ok {
		for _, cmd := range list {
			s.do(cmd)
		}
		return
	}
	_, next := s.m.Update(msg)
	s.do(next)
}

var specialKeys = map[string]tea.KeyPressMsg{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "space": {Code: tea.KeySpace, Text: " "}, "down": {Code: tea.KeyDown},
	"end": {Code: tea.KeyEnd}, "left": {Code: tea.KeyLeft}, "tab": {Code: tea.KeyTab},
}

// press presses keys, and returns the screen without colours.
func (s *topScreen) press(keys ...string) string {
	for _, k := range keys {
		msg, ok := specialKeys[k]
		if !ok {
			msg = tea.KeyPressMsg{Text: k}
		}
		_, cmd := s.m.Update(msg)
		s.do(cmd)
	}
	return s.text()
}

func (s *topScreen) size(w, h int) string {
	s.m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return s.text()
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func (s *topScreen) text() string { return escapes.ReplaceAllString(s.m.View().Content, "") }

func (s *topScreen) lacks(text string, list ...string) {
	s.t.Helper()
	for _, w := range list {
		testenv.FailIf(s.t, strings.Contains(text, w), "the screen has %q:\n%s", w, text)
	}
}

func (s *topScreen) has(text string, want ...string) {
	s.t.Helper()
	testenv.Has(s.t, "the screen", text, want...)
}

// The screen fits into terminals of all sizes, in all views, with and without colours and Unicode.
func TestTopFits(t *testing.T) {
	for _, colours := range []paint{false, true} {
		s := newTopScreen(t, colours, bool(colours))
		for _, size := range [][2]int{{80, 24}, {200, 60}, {100, 40}, {40, 12}, {20, 5}, {1, 1}} {
			s.size(size[0], size[1])
			for _, key := range []string{"0", "1", "2", "3", "4", "?", "?", "/", "esc"} {
				text := s.press(key)
				lines := strings.Split(s.m.View().Content, "\n")
				testenv.FailIf(t, len(lines) > max(size[1], 8) || size[1] >= 12 && len(lines) != size[1], "%v: %d lines after %s:\n%s", size, len(lines), key, text)
				for _, line := range lines {
					testenv.FailIf(t, lipgloss.Width(line) > size[0], "%v: a line of %d columns after %s: %q", size, lipgloss.Width(line), key, line)
				}
				testenv.FailIf(t, !bool(colours) && strings.ContainsAny(s.m.View().Content, "\x1b█▁…░●■►←"), "%v: escapes or Unicode after %s: %q", size, key, s.m.View().Content)
			}
		}
	}
}

// What the file has is on the screen.
func TestTopShows(t *testing.T) {
	s := newTopScreen(t, false, true)
	text := s.size(80, 24)
	s.has(text, "gotach top  locks.tach", "■ END", "1.00s until", "4 goroutines", "on CPU 0.80", "[1 Functions]", "SELF", "FUNCTION", "q quit", "? keys")
	s.has(text, "1.20s  30.0 %    1.20s        0", "[sync.Mutex.Lock]", "800ms  20.0 %    2.00s    800ms")
	s.has(s.press("2"), "[2 Blocked]", "1.20s  37.5 %", "[sync.Mutex.Lock] main.(*cache).get  cache.go:31")
	s.has(s.press("3"), "[3 Locks]", "1.20s      42   30.0ms           2  Mutex in main.(*cache).get  sync.Mutex 1", "held  [sleep] main.load  cache.go:60")
	testenv.FailIf(t, !regexp.MustCompile(`(?m)^ *CHANNEL OR GROUP *$`).MatchString(s.text()), "what is no lock has no heading:\n%s", s.text())
	s.has(s.press("4"), "[4 Goroutines]", "AVERAGE", "4.00", "[creator unknown]")
	s.has(s.press("0"), "[0 All]", "FUNCTION", "BLOCKED AT", "LOCK, CHANNEL OR GROUP", "CREATED BY")
	s.has(s.size(200, 60), "GOROUTINES DURING THE WINDOW", "on CPU", "blocked", "main.serve  cache.go:14 (12–14)")
	s.has(s.press("?"), "scroll", "q           quit", "any key goes back")
	s.has(s.size(60, 15)+s.press("end"), "1 2 3 4 ", "the program's", "↑ ↓ scroll, any other key goes back", "locks where one matches; esc: all again", "q           quit")
	s.press("?")
	s.has(s.size(40, 12), "[0 All]", " 4 gorou… by self", "1.20s  30.0 %")
	s.has(s.press("4"), " 1   2   3  [4 Goroutines]  0 ")
	s.lacks(s.text(), "at once")
	s.m.look.MostGoroutines = 15_000 // more than it can show yet
	s.has(s.size(80, 24), "goroutines seen, up to 15000 at once so far")
}

// A change of the terminal's size of which nobody was told is seen at the next tick.
func TestTopSize(t *testing.T) {
	s := newTopScreen(t, false, true)
	s.size(80, 24)
	width := 80
	s.m.size = func() (int, int) { return width, 24 }
	for _, width = range []int{80, 81} {
		testenv.Same(t, width, s.m.resized() != nil, width != 80)
	}
}

// Each key does what the help says.
func TestTopKeys(t *testing.T) {
	s := newTopScreen(t, false, true)
	s.size(80, 24)
	s.has(s.press("s"), "by total")
	text := s.press("s")
	s.has(text, "by cpu")
	i, j := strings.Index(text, "main.serve"), strings.Index(text, "[sleep]")
	testenv.FailIf(t, i < 0 || i > j, "by cpu main.serve is not first:\n%s", text)
	text = s.press("S", "S", "c")
	s.has(text, "CPU time, by self", "800ms 100.0 %    800ms")
	s.lacks(text, "[sleep]")
	text = s.press("c", "/", "l", "o", "a", "d", "enter")
	s.has(text, "filter load", "main.load", "600ms 100.0 %")
	s.lacks(text, "main.worker")
	text = s.press("3")
	s.has(text, "sync.Mutex 1")
	s.lacks(text, "main.jobs")
	s.has(s.press("/", "(", "enter"), "/load(", "missing closing )")
	s.has(s.press("esc", "esc", "1"), "main.worker")
	for _, c := range []struct {
		keys   []string
		window time.Duration
	}{{[]string{"W"}, 5 * time.Second}, {[]string{"w", "w"}, 30 * time.Second}} {
		s.press(c.keys...)
		testenv.Same(t, c.keys, s.m.windows[s.m.window], c.window)
	}
	s.press("left")
	testenv.FailIf(t, s.m.at.After(s.m.look.Last) || s.m.at.Before(s.m.look.First), "left: %v is not between %v and %v", s.m.at, s.m.look.First, s.m.look.Last)
	s.has(s.press("l", ">", ">", "space"), "► PLAYING 4x", " 500ms until") // this file has a second
	s.has(s.press("space"), "‖ PAUSED")
	s.press("l")
	s.m.Update(tickMsg(time.Now().Add(time.Minute)))
	s.has(s.text(), "■ END")
	s.size(80, 12)
	before, after := s.press("1"), s.press("down")
	testenv.FailIf(t, before == after, "down does not scroll:\n%s", after)
	s.has(s.press("end"), "main.(*cache).refresh")
	s.has(s.press("tab"), "[2 Blocked]")
	_, cmd := s.m.Update(tea.KeyPressMsg{Text: "q"})
	_, ok := cmd().(tea.QuitMsg)
	testenv.FailIf(t, !ok, "q does not quit")
}

// A file that cannot be read ends the program with the reason.
func TestTopFails(t *testing.T) {
	w := testenv.Closes(t, testenv.Must(top.File("testdata/script/help.txtar")))
	m := newTopModel(t.Context(), w, time.Second, false, true)
	_, cmd := m.Update(m.poll()())
	_, ok := cmd().(tea.QuitMsg)
	testenv.FailIf(t, !ok || m.failed == nil || !strings.Contains(m.failed.Error(), "not a Tachyon file"), "error %v", m.failed)
}

// A line has the findings; they are looked for again when their time has come or the window is another one. What is set apart comes
// back with a key.
func TestTopFindings(t *testing.T) {
	s := newTopScreen(t, false, true)
	s.has(s.size(80, 24), " 1 finding: ")
	testenv.FailIf(t, s.m.query().Findings, "findings are looked for again at once")
	s.m.foundAt = time.Now().Add(-time.Hour)
	testenv.FailIf(t, !s.m.query().Findings, "findings of an hour ago are not looked for again")
	s.m.foundAt = time.Now()
	s.m.at = s.m.look.Last.Add(-500*time.Millisecond + time.Nanosecond)
	s.do(s.m.refreshed())
	testenv.FailIf(t, s.m.query().Findings || !s.m.foundTo.Equal(s.m.look.To), "the findings are those until %v, the window ends at %v", s.m.foundTo, s.m.look.To)
	s.m.found, s.m.look.States.Apart = nil, []profile.Apart{{What: "profiling endpoints", Wall: time.Second}}
	s.has(s.text(), " Nothing stands out.", " set apart: profiling endpoints 1.00s; a shows it")
	s.has(s.press("a"), "with what is apart")
	testenv.FailIf(t, !s.m.query().Apart, "a does not show what is set apart")
}
