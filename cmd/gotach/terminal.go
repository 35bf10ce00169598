package main

import (
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

func isTerminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

// file returns the file that a writer writes to, if it is one.
func file(w io.Writer) (f *os.File, ok bool) {
	if o, filtered := w.(*output); filtered {
		w = o.w
	}
	f, ok = w.(*os.File)
	return f, ok
}

// minWidth is the number of columns that a report may take on any terminal. On wide ones names have
// more room.
const minWidth = 80

// unlimited is the width of a report that may have lines of any length.
const unlimited = math.MaxInt32

// width returns the number of columns for a report: as many as COLUMNS says, else as the terminal
// has. Without a terminal there is no limit.
func width(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, minWidth)
	}
	f, ok := file(w)
	if !ok {
		return unlimited
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 {
		return unlimited
	}
	return max(columns, minWidth)
}

// print prints text. On a terminal that cannot show Unicode it replaces bars and the like.
func (e *env) print(text []byte) error {
	if isTerminal(e.stdout) && !unicodeLocale(os.Getenv) {
		text = []byte(ascii.Replace(string(text)))
	}
	_, err := e.stdout.Write(text)
	return err
}

// ascii replaces characters by others of the same width.
var ascii = strings.NewReplacer("█", "#", "▒", "+", "░", "-", "▁", "_", "▂", ".", "▃", ":", "▄", "-", "▅", "=", "▆", "+", "▇", "*",
	"…", "~", "–", "-", "µ", "u", "≥", ">", "×", "x", "→", ">", "├", "|", "└", "\\", "│", "|", "─", "-",
	"●", "*", "■", "#", "►", ">", "‖", "|", "←", "<", "↑", "^", "↓", "v")

// unicodeLocale reports whether the locale has Unicode characters. If nothing is set, most
// terminals do.
func unicodeLocale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// paint colours text if the output is a terminal and the user has not turned colours off
// (https://no-color.org).
type paint bool

func newPaint(w io.Writer) paint {
	return paint(isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func (p paint) with(code, s string) string {
	if !p || s == "" {
		return s
	}
	return ownColour + code + "m" + s + ownColour + "0m"
}

func (p paint) bold(s string) string { return p.with("1", s) }
func (p paint) dim(s string) string  { return p.with("2", s) }
func (p paint) good(s string) string { return p.with("32", s) }
func (p paint) busy(s string) string { return p.with("31", s) } // on CPU
func (p paint) late(s string) string { return p.with("33", s) } // without a core
func (p paint) wait(s string) string { return p.with("36", s) } // waiting

func (e *env) warn(err error) { printf(e.stderr, "gotach: warning: %v\n", err) }

// patience is the time after which a progress bar appears.
const patience = 500 * time.Millisecond

// A progress is a progress bar on a terminal. It appears after patience.
type progress struct {
	w     io.Writer // nil: no terminal
	what  string
	began time.Time
	total uint64
	bar   *progressbar.ProgressBar
}

func (e *env) progress(what string) *progress {
	p := &progress{what: what, began: time.Now()}
	if isTerminal(e.stderr) {
		p.w = e.stderr.w // it moves the cursor
	}
	return p
}

// name says what the bar is for, from now on.
func (p *progress) name(what string) {
	if p.bar != nil && what != p.what {
		p.bar.Describe(what)
	}
	p.what = what
}

// update shows the amount done.
func (p *progress) update(done, total uint64) {
	if p.w == nil || time.Since(p.began) < patience {
		return
	}
	if p.bar != nil && p.total != total { // a new step of the work
		_ = p.bar.Clear()
		p.bar = nil
	}
	if p.bar == nil {
		p.total = total
		p.bar = progressbar.NewOptions64(int64(total),
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(p.what),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = p.bar.Set64(int64(done)) // an error here is no error of the work
}

// done removes the bar. It may be called again.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
	p.w = nil
}
