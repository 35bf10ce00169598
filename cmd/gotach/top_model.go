package main

import (
	"context"
	"regexp"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/gotach/profiler/cmd/gotach/internal/top"
	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
)

// A topModel is the state of the screen of gotach top.
type topModel struct {
	ctx    context.Context
	watch  *top.Watch
	paint  paint
	ascii  bool // the terminal has no Unicode
	source func(name string) *source.File

	width, height int
	look          *top.Look // nil: nothing was seen yet
	failed        error     // nothing could be read

	view    int // index into topViews
	sorts   [len(topViews)]int
	cpu     bool
	idle    bool
	apart   bool
	size    func() (width, height int) // of the terminal; may be nil
	windows []time.Duration
	window  int // index into windows
	focus   *regexp.Regexp
	scroll  int

	found   []findings.Finding // of the latest look that was asked for them
	foundAt time.Time          // when that was; zero: never
	foundTo time.Time          // end of its window
	costly  time.Duration      // what it took

	paused bool
	at     time.Time // end of the window; zero: the latest sample
	play   bool      // the file was finished from the beginning
	speed  float64

	typing bool // a filter
	input  string
	help   bool
	// helpLong: the help has more lines than the screen, from line helpAt on they are seen.
	helpLong bool
	helpAt   int
	notice   string

	after func(time.Duration, func(time.Time) tea.Msg) tea.Cmd // tea.Tick; tests do not wait

	polling, looking, again bool
	took                    time.Duration // by the latest look
	shown                   time.Time     // when the latest tick was
	page                    int           // lines of the table on the screen
	lines                   int           // of the table
}

// A topView is one of the tables, or all.
type topView struct {
	name  string
	views []top.View
	sorts []string // what it can be sorted by
}

var topViews = [...]topView{
	{"All", []top.View{top.Functions, top.Blocked, top.Locks, top.Groups}, []string{"self", "total", "cpu"}},
	{"Functions", []top.View{top.Functions}, []string{"self", "total", "cpu"}},
	{"Blocked", []top.View{top.Blocked}, []string{"time", "trend"}},
	{"Locks", []top.View{top.Locks}, []string{"waited", "waits", "longest"}},
	{"Goroutines", []top.View{top.Groups}, []string{"number", "cpu", "trend"}},
}

const (
	refresh = time.Second
	// load is how much of a core the analysis may use: if a look takes long, the next one comes
	// later.
	load = 5
	// findEvery and findLoad are refresh and load for findings, which nobody reads anew each
	// second.
	findEvery = 5 * time.Second
	findLoad  = 50
)

func newTopModel(ctx context.Context, w *top.Watch, window time.Duration, p paint, unicode bool) *topModel {
	m := &topModel{ctx: ctx, watch: w, paint: p, ascii: !unicode, view: 1, speed: 1, width: usualWidth, height: usualHeight, after: tea.Tick}
	for _, s := range []int{2, 5, 10, 30, 60, 300} {
		m.windows = append(m.windows, time.Duration(s)*time.Second)
	}
	if !slices.Contains(m.windows, window) {
		m.windows = append(m.windows, window)
		slices.Sort(m.windows)
	}
	m.window = slices.Index(m.windows, window)
	return m
}

// The messages of the model's commands.
type (
	polledMsg struct{ err error }
	lookedMsg struct {
		look *top.Look
		find bool // findings were asked for
		err  error
		took time.Duration
	}
	tickMsg     time.Time
	progressMsg struct{}
)

// Init implements tea.Model.
func (m *topModel) Init() tea.Cmd {
	return tea.Batch(m.poll(), m.after(300*time.Millisecond, func(time.Time) tea.Msg { return progressMsg{} }))
}

// poll reads what is new.
func (m *topModel) poll() tea.Cmd {
	if m.polling {
		return nil
	}
	m.polling = true
	return func() tea.Msg { return polledMsg{m.watch.Poll(m.ctx)} }
}

// refreshed analyzes the window.
func (m *topModel) refreshed() tea.Cmd {
	if m.looking {
		m.again = true
		return nil
	}
	m.looking, m.again = true, false
	q := m.query()
	return func() tea.Msg {
		begin := time.Now()
		l, err := m.watch.Look(q)
		return lookedMsg{l, q.Findings, err, time.Since(begin)}
	}
}

// query returns what is to be seen.
func (m *topModel) query() top.Query {
	q := top.Query{At: m.at, Window: m.windows[m.window], Views: topViews[m.view].views, CPU: m.cpu, Idle: m.idle, Apart: m.apart, Focus: m.focus, Sort: profile.SortSelf}
	q.Locks.Source = m.source
	q.Findings = m.foundAt.IsZero() || m.paused && !m.foundTo.Equal(m.at.Truncate(time.Microsecond)) || time.Since(m.foundAt) > max(findEvery, findLoad*m.costly)
	if m.view <= 1 {
		q.Sort = profile.Sorts[m.sorts[m.view]]
	}
	return q
}

// wholeScreen makes all lines of the terminal scroll. Bubble Tea limits scrolling to some lines for
// a moment, and then to as many as it thinks the terminal has. A terminal that has grown meanwhile
// keeps that limit, and what is drawn afterwards lands on wrong lines.
const wholeScreen = "\x1b7\x1b[r\x1b8" // save the cursor, DECSTBM without margins (which moves it), restore the cursor

// Update implements tea.Model.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, tea.Sequence(tea.Raw(wholeScreen), tea.ClearScreen)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case progressMsg:
		if m.look == nil {
			return m, m.after(300*time.Millisecond, func(time.Time) tea.Msg { return progressMsg{} })
		}
	case polledMsg:
		return m, m.polled(msg.err)
	case lookedMsg:
		return m, m.looked(msg)
	case tickMsg:
		return m, tea.Batch(m.resized(), m.tick(time.Time(msg)))
	}
	return m, nil
}

// resized asks for the size of the terminal if it is not the one that is known. Bubble Tea reads it
// first and then listens for changes, so a change between these two would not be seen.
func (m *topModel) resized() tea.Cmd {
	if m.size == nil {
		return nil
	}
	if w, h := m.size(); w == m.width && h == m.height {
		return nil
	}
	return tea.RequestWindowSize
}

// polled is called after a poll.
func (m *topModel) polled(err error) tea.Cmd {
	m.polling = false
	if err != nil {
		if m.look == nil {
			m.failed = err
			return tea.Quit
		}
		m.notice = err.Error()
		return nil
	}
	next := m.next()
	switch {
	case m.paused, m.look != nil && !m.look.Live && !m.watch.State().Live: // nothing is new
		return next
	case m.watch.Waits():
		next = m.poll()
	}
	return tea.Batch(m.refreshed(), next)
}

// next waits until the next refresh.
func (m *topModel) next() tea.Cmd {
	return m.after(max(refresh, load*m.took), func(t time.Time) tea.Msg { return tickMsg(t) })
}

// tick begins a refresh. While nothing moves, nothing is read.
func (m *topModel) tick(now time.Time) tea.Cmd {
	passed := now.Sub(m.shown)
	m.shown = now
	switch {
	case m.play && !m.paused && m.look != nil:
		m.at = m.at.Add(time.Duration(float64(min(passed, 10*refresh)) * m.speed))
		if !m.at.Before(m.look.Last) {
			m.at, m.paused = m.look.Last, true
		}
		return tea.Batch(m.refreshed(), m.next())
	case m.polling:
		return nil // the end of the poll goes on
	case m.play || m.paused:
		return m.next()
	}
	return m.poll()
}

// looked shows what was seen.
func (m *topModel) looked(msg lookedMsg) tea.Cmd {
	m.looking, m.took = false, msg.took
	if msg.err != nil {
		m.notice = msg.err.Error()
	}
	if msg.look != nil {
		first := m.look == nil
		if m.look = msg.look; msg.find && msg.look.Findings != nil {
			m.found, m.foundAt, m.foundTo, m.costly = msg.look.Findings, time.Now(), msg.look.To, msg.took
		}
		if first && !msg.look.Live && msg.look.Ended == "" { // play it from the beginning
			m.play, m.at, m.shown = true, m.begin(), time.Now()
			return m.refreshed()
		}
	}
	if m.again {
		return m.refreshed()
	}
	return nil
}
