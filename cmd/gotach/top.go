package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/gotach/profiler/cmd/gotach/internal/top"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The size of the screen until the terminal says its own.
const usualWidth, usualHeight = 80, 24

// usualWindow is the time that is shown at first.
const usualWindow = 10 * time.Second

// topKeys are the keys of gotach top, for its help on the screen and for --help.
var topKeys = [][2]string{
	{"1 2 3 4", "functions, blocked lines, locks, groups of goroutines"},
	{"0", "all of them together"},
	{"tab", "the next of these"},
	{"↑ ↓", "scroll; so do pgup, pgdn, home and end"},
	{"s", "sort by the next column"},
	{"c", "functions by CPU time only, or by all time"},
	{"i", "count idle time too, or leave it out"},
	{"a", "count also what is set apart: leaks, clients of the program's own server, and profiling endpoints"},
	{"/", "show only stacks with a function or file that matches a regular expression; on locks: only locks where one matches; esc: all again"},
	{"w W", "a longer or a shorter window"},
	{"space", "pause, and go on"},
	{"← →", "go back and forth in time, by half a window"},
	{"l", "go to the latest time"},
	{"< >", "play a finished file slower or faster"},
	{"?", "these keys"},
	{"q", "quit"},
}

// topHelp returns the keys as lines that are at most so wide, if that is possible.
func topHelp(width int) (lines []string) {
	for _, k := range topKeys {
		for i, text := range wrap(k[1], max(20, width-12), 0) {
			if i > 0 {
				k[0] = ""
			}
			lines = append(lines, fmt.Sprintf("%-12s%s", k[0], text))
		}
	}
	return lines
}

func newTop(e *env) *cobra.Command {
	var window time.Duration
	var sources sourceFlags
	cmd := &cobra.Command{
		Use:   "top FILE|PID|NAME|URL",
		Short: "Show live where a program spends its time",
		Long: `Show live where a program spends its time, as top and htop do for processes: the states of its
goroutines, the hottest functions, the lines of its own code that block, the locks and what their
holders do, and goroutines by the place that created them.

FILE is a profile. While a program writes it, top follows it, at no cost for the program; a finished
one is played. PID is a process, NAME the executable of one process. If it writes no profile, top records it from outside to a temporary
file, as gotach record does. URL is that of httpprof.Handler in a program; top asks it for profiles of
one second each.

The numbers are those of gotach report, locks and leaks for a window of time, at first the last 10
seconds. Times are of all goroutines together. AVERAGE is the average number of goroutines, TREND its
change during the window. A line above the tables has a finding of gotach why in the window, renewed at
most every five seconds.

` + sourceHelp + `

Keys:
  ` + strings.Join(topHelp(helpWidth-2), "\n  ") + `

Only the latest three million samples are kept. The window of a running program ends two seconds ago,
because the file does not say sooner which goroutines have ended. With many thousand goroutines each
is sampled rarely, and a new one counts from its second sample.`,
		Example: `  gotach top app.tach
  gotach top app
  gotach top http://localhost:6060/debug/profile
  gotach top app.tach --window 1m`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("top: %s, want a file, a process or a URL; usage: gotach %s", plural(int64(len(args)), "argument"), cmd.Use)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runTop(e, args[0], window, &sources) },
	}
	cmd.Flags().DurationVar(&window, "window", usualWindow, "show the last `TIME`")
	sources.add(cmd)
	return cmd
}

func runTop(e *env, what string, window time.Duration, sources *sourceFlags) error {
	if window < time.Second || window > time.Hour {
		return usagef("top: --window %v: it must be between 1s and 1h", window)
	}
	if !isTerminal(e.stdout) || !isInput(e) {
		return fmt.Errorf("top: it needs a terminal; without one use gotach report %s", reportInstead(what))
	}
	read, err := sources.reader("top")
	if err != nil {
		return err
	}
	w, err := watch(e.ctx, what)
	if err != nil {
		return err
	}
	defer w.Close()
	m := newTopModel(e.ctx, w, window, newPaint(e.stdout), unicodeLocale(os.Getenv))
	m.source = read.Read
	terminal, _ := file(e.stdout)
	m.size = func() (int, int) {
		w, h, err := term.GetSize(int(terminal.Fd()))
		if err != nil {
			return m.width, m.height
		}
		return usualSize(w, h)
	}
	p := tea.NewProgram(m, tea.WithContext(e.ctx), tea.WithInput(e.stdin), tea.WithOutput(e.stdout.w), tea.WithFilter(sized), tea.WithoutSignalHandler())
	if _, err := p.Run(); err != nil {
		if e.ctx.Err() != nil {
			return errInterrupted
		}
		return fmt.Errorf("top: %w", err)
	}
	return m.failed
}

// sized replaces the size of a terminal that does not know its own, as in a container, by the usual
// one.
func sized(_ tea.Model, msg tea.Msg) tea.Msg {
	if size, ok := msg.(tea.WindowSizeMsg); ok {
		size.Width, size.Height = usualSize(size.Width, size.Height)
		return size
	}
	return msg
}

// usualSize returns a size, or the usual one if it is none.
func usualSize(w, h int) (int, int) {
	if w <= 0 || h <= 0 {
		return usualWidth, usualHeight
	}
	return w, h
}

// isInput reports whether keys can be read.
func isInput(e *env) bool {
	f, ok := e.stdin.(*os.File)
	return ok && isTerminal(f)
}

// reportInstead returns what gotach report reads of what top should show.
func reportInstead(what string) string {
	if isURL(what) {
		return "with a file, such as that of curl -o app.tach " + quoted(top.URLName(what)+"?seconds=10&format=tach")
	}
	if pid, err := processOf(what); pid > 0 || err != nil {
		return "with the file that the process writes, or gotach record " + quoted(what) + " if it writes none"
	}
	return quoted(what)
}

func isURL(s string) bool { return strings.Contains(s, "://") }

func isProcess(s string) bool {
	pid, err := strconv.Atoi(s)
	return err == nil && pid > 0 && !exists(s)
}

// watch opens a file, a process or a URL.
func watch(ctx context.Context, what string) (*top.Watch, error) {
	if isURL(what) {
		return top.URL(what)
	}
	if what == "-" {
		return nil, errors.New("top: standard input cannot be watched, a file can")
	}
	if pid, err := processOf(what); err != nil {
		return nil, err
	} else if pid > 0 {
		return watchProcess(ctx, pid)
	}
	w, err := top.File(what)
	return w, orProcess(what, err)
}
