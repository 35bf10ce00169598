package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// tall is the number of lines from which on there is room for the states over time, and for all tables.
const tall = 40

// View implements tea.Model.
func (m *topModel) View() tea.View {
	lines := m.screen()
	for i, line := range lines {
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
		table = append([]string{""}, strings.Split(topKeys, "\n")...)
		if len(table) > room {
			table = table[1:]
		}
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
	gap := m.width - lipgloss.Width(left) - lipgloss.Width(right)
	if gap < 1 {
		left = lipgloss.NewStyle().MaxWidth(max(0, m.width-lipgloss.Width(right)-1)).Render(left)
		gap = max(1, m.width-lipgloss.Width(left)-lipgloss.Width(right))
	}
	return left + strings.Repeat(" ", gap) + right
}

// head returns the lines above the table.
func (m *topModel) head() []string {
	state := m.watch.State()
	left := " " + m.paint.bold("gotach top") + "  " + printable(shortName(state.Name))
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
	lines = append(lines, m.spread(text, printable(m.chosen())+" "))
	lines = append(lines, m.states(window)...)
	if m.height >= tall {
		lines = append(lines, "")
	}
	return append(lines, m.tabs())
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
	return printable(strings.Join(list, "  "))
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
	if m.cpu && m.view <= 1 {
		list = append(list, "CPU time")
	}
	v := &topViews[m.view]
	list = append(list, "by "+v.sorts[m.sorts[m.view]])
	return strings.Join(list, ", ")
}

// tabs returns the names of the tables.
func (m *topModel) tabs() string {
	var b strings.Builder
	for i := range topViews {
		n := (i + 1) % len(topViews)
		text := fmt.Sprintf(" %d %s ", n, topViews[n].name)
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
		average := float64(a.all) / float64(window)
		most := average
		if len(a.series) > 0 {
			most = max(average, float64(slices.Max(a.series))/float64(window)*float64(len(a.series)))
		}
		lines = append(lines, fmt.Sprintf(" %-14s%s  %s %s", a.name, a.paint(m.paint, sparks(a.series, columns)), number(average), number(most)))
	}
	return lines
}

// stateBar shows the shares of the states.
func (m *topModel) stateBar(list []stateAmount, all time.Duration) string {
	var b strings.Builder
	b.WriteByte(' ')
	used, sum, columns := 0, time.Duration(0), m.width-2
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

// foot returns the last line: keys, or the filter that is typed, or what is wrong.
func (m *topModel) foot() string {
	notice := cmp.Or(m.notice, m.watch.State().Notice, m.watch.State().Ended)
	switch {
	case m.typing && m.notice != "":
		return " /" + printable(m.input) + "█  " + m.paint.busy(printable(m.notice))
	case m.typing:
		return " /" + printable(m.input) + "█  " + m.paint.dim("a regular expression, enter")
	case m.help:
		return " any key goes back"
	case notice != "":
		notice, _, _ = strings.Cut(notice, "\n")
		return " " + m.paint.busy(printable(notice))
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

// all returns the tables one below the other.
func (m *topModel) all(room int) []string {
	type part struct {
		title string
		lines []string
		shown int
	}
	var parts []part
	left := room
	for v := 1; v < len(topViews); v++ {
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
	return []string{" " + m.paint.dim(printable("no "+what+" in this window"))}
}

// place returns a row's name and place in the source.
func (m *topModel) place(r *profile.Report, row *profile.Row, room int) string {
	t := reportTable{paint: m.paint, r: r, o: profile.ReportOptions{By: profile.ByFunction}}
	return t.place(row, room)
}

func (m *topModel) share(d, all time.Duration) string {
	s := fmt.Sprintf("%7s", percent(d, all))
	if all > 0 && d >= all/10 {
		return m.paint.bold(s)
	}
	return s
}

// narrow reports whether the terminal has few columns, so that tables have only the most important ones.
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
		lines = append(lines, fmt.Sprintf(" %7s %s  %7s  %s%s  %s", duration(row.Self), m.share(row.Self, r.Shown), duration(row.Total), cpu, m.trend(row), m.place(r, row, room)))
	}
	if len(lines) == 0 {
		lines = m.none("function")
	}
	return m.paint.bold(head + "FUNCTION"), lines
}

func (m *topModel) blocked(r *profile.Report) (string, []string) {
	head := fmt.Sprintf(" %7s %7s  ", "TIME", "")
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
		lines = append(lines, fmt.Sprintf(" %7s %s  %s%s  %s", duration(row.Self), m.share(row.Self, r.Shown), number, m.trend(row), m.place(r, row, room)))
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

func (m *topModel) locks(l *analyze.Locks) (string, []string) {
	head := fmt.Sprintf(" %7s  %6s  %7s  %10s  LOCK, CHANNEL OR GROUP", "WAITED", "WAITS", "LONGEST", "GOROUTINES")
	list := slices.DeleteFunc(slices.Clone(l.Locks), func(x analyze.Lock) bool { return m.focus != nil && !m.matches(&x) })
	if m.view == 3 {
		switch m.sorts[m.view] {
		case 1:
			slices.SortStableFunc(list, func(a, b analyze.Lock) int { return cmp.Compare(b.Waits, a.Waits) })
		case 2:
			slices.SortStableFunc(list, func(a, b analyze.Lock) int { return cmp.Compare(b.Longest, a.Longest) })
		}
	}
	var lines []string
	for i := range list {
		lines = append(lines, m.lock(&list[i], l.Tick)...)
	}
	if len(list) == 0 {
		lines = m.none("wait for a lock or channel")
	}
	return m.paint.bold(head), lines
}

// lock returns the lines of a lock: where goroutines waited for it, and what those did that held it.
func (m *topModel) lock(x *analyze.Lock, tick time.Duration) (lines []string) {
	const indent = 23
	kind := printable(x.Kind)
	if x.Object > 0 {
		kind += fmt.Sprintf(" %d", x.Object)
	}
	room := max(minName, m.width-41-utf8.RuneCountInString(kind))
	lines = append(lines, fmt.Sprintf(" %7s  %6d  %7s  %10d  %s  %s", duration(x.Waited), x.Waits, duration(x.Longest), x.Goroutines,
		m.paint.bold(shorten(printable(x.Name), room)), m.paint.dim(kind)))
	line := func(number, what, state, function, file string, line int, colour func(string) string) {
		state = "[" + printable(state) + "] "
		room := m.width - indent - 6 - utf8.RuneCountInString(state)
		lines = append(lines, fmt.Sprintf("%-*s%-4s  %s%s", indent, number, what, colour(state), site(m.paint, function, fmt.Sprintf("%s:%d", baseName(file), line), room)))
	}
	for i, s := range x.Sites[:min(len(x.Sites), mostSites)] {
		what := ""
		if i == 0 {
			what = "at"
		}
		line(fmt.Sprintf(" %7s  %6d", duration(s.Waited), s.Waits), what, s.Reason, s.Func, s.File, s.Line, m.paint.wait)
	}
	h := x.Holder
	if h == nil {
		return lines
	}
	for i, l := range h.Lines {
		if i == mostSites || i > 0 && l.Time < h.Lines[0].Time/100 {
			break
		}
		what := ""
		if i == 0 {
			what = "held"
		}
		line(fmt.Sprintf(" %7s", duration(l.Time)), what, l.State, l.Func, l.File, l.Line, m.paint.busy)
	}
	known := fmt.Sprintf("holder %s seen, %s inferred, %s unknown", percent(h.Seen, x.Waited), percent(h.Inferred, x.Waited), percent(h.Unknown, x.Waited))
	if h.TooShort {
		known = fmt.Sprintf("most holds are too short for ticks of %s", duration(tick))
	}
	return append(lines, fmt.Sprintf("%*s%s", indent+6, "", m.paint.dim(known)))
}

// matches reports whether a lock matches the filter.
func (m *topModel) matches(x *analyze.Lock) bool {
	any := func(list ...string) bool { return slices.ContainsFunc(list, m.focus.MatchString) }
	if any(x.Name, x.Kind) {
		return true
	}
	for _, s := range x.Sites {
		if any(profile.FuncName(s.Func), s.File, s.Reason) {
			return true
		}
	}
	if x.Holder != nil {
		for _, h := range x.Holder.Lines {
			if any(profile.FuncName(h.Func), h.File) {
				return true
			}
		}
	}
	return false
}

func (m *topModel) groups(r *profile.Report) (string, []string) {
	head := fmt.Sprintf(" %7s  ", "AVERAGE")
	if !m.narrow() {
		head += fmt.Sprintf("%7s  ", "MOST")
	}
	head += fmt.Sprintf("%7s  %-*s  %-9s  ", "CPU", m.trendWidth(), "TREND", "GROWTH")
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
		growing := fmt.Sprintf("%-9s", m.growing(row))
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
	case suspect:
		return fmt.Sprintf("LEAK%+.0f", sum)
	}
	return fmt.Sprintf("%+.0f/min", sum)
}
