package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/diff"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

// diffFlags are the flags of diff.
type diffFlags struct {
	by, per   string
	failAbove string
	top       int
	all       bool
	json      bool
	findings  bool // print the findings that one side has alone
	choice    selectFlags
}

func newDiff(e *env) *cobra.Command {
	var o formats.Options
	fl := diffFlags{findings: true}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what changed between two profiles, beyond chance",
		Long: `Show what changed between two profiles: first in total (CPU, goroutines, requests), then functions and
waits. Changes that chance explains are one line at the end; --all lists them. Last come the findings
of gotach why that only one side has.

"CPU total" is a function of the program's own code with what it calls, "CPU" a function itself, both
in percent of one core. "waits" is the average number of goroutines that wait at a place: the reason,
the innermost function of the program's own code and, after "in", the library's function that waits,
such as "[select] main.get in net/http.(*Transport).getConn". Idle waits have rows too, unlike in
gotach report. With --per share, times are in percent of the time of all goroutines. With --per
request they are per request, as gotach requests counts them, and do not depend on load.

Significance: each profile is divided into windows of at most a second, and Welch's t-test compares the
windows of both sides. Successive windows count as one as far as they are correlated. Of the rows
that are shown as different, on average at most one in twenty is by chance (false discovery rate,
Benjamini and Hochberg). A row is different exactly if its interval does not contain 0.

The machine can be slower for one side, or busy with other programs. So a difference of less than 2 %
of the row does not count. CPU must differ at any plausible speed of the machine. That speed is
estimated from most functions, within a tenth, or within what the time without a core explains.
If [no core] and [runnable] differ, waits must differ by more, or by half. Not tested are rows of less than
0.1 % of a core or of a goroutine (CPU: or of less than 0.5 % of all CPU, if that is less), and
[no core], [runnable], [scheduler] and [profiler], which depend on the load of the machine.

A and B are files. With -- between the sides, each side can have many files of one load; each file has
windows of its own. FILE@FROM..TO is a part of a profile, such as app.tach@0s..30s; FROM and TO are
times as for --since, may be left out, and replace those flags. If a side has many files, a damaged one
causes a warning, and exit code 1. If the Go versions differ, all function literals of a function are
one row, since they are numbered differently.

` + selectHelp + `
With --per request, they select requests that have such a sample.

With --fail-above 5%, diff exits with 3 if a row differs and takes over 5 % of a core or of a
goroutine more on side B, by the lower bound of the interval. With --per request, 100 % is the time of
a request on side A.`,
		Example: `  gotach diff before.tach after.tach
  gotach diff before.*.tach -- after.*.tach
  gotach diff app.tach@0s..60s app.tach@-60s.. --by line
  gotach diff before.tach after.tach --per request
  gotach diff before.tach after.tach --fail-above 5% > diff.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			sides, err := twoSides(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			return printDiff(e, sides, o, fl)
		},
	}
	f := cmd.Flags()
	f.StringVar(&fl.by, "by", "function", "a row for each `WHAT`: function, total (with what it calls), line or stack")
	f.StringVar(&fl.per, "per", "wall", "divide times by `WHAT`: wall (the clock), share (all goroutines' time) or request (their number)")
	f.StringVar(&fl.failAbove, "fail-above", "", "exit with 3 if a row takes `PERCENT` more, beyond chance")
	f.IntVar(&fl.top, "top", defaultTop, "print at most `N` rows; 0: all, as --json does")
	f.BoolVar(&fl.all, "all", false, "also print changes that chance explains")
	f.BoolVar(&fl.json, "json", false, "print one JSON object")
	fl.choice.add(cmd)
	completeWords(cmd, "by", diff.Bys)
	completeWords(cmd, "per", diff.Pers)
	fromFlags(cmd, &o)
	return cmd
}

// twoSides returns the files of both sides. dash is the number of arguments before --, or -1.
func twoSides(args []string, dash int) (sides [2][]string, err error) {
	if dash < 0 && len(args) == 2 {
		dash = 1
	}
	if dash <= 0 || dash >= len(args) {
		return sides, usagef("diff: %s, want two files, or -- between the files of both sides", plural(int64(len(args)), "argument"))
	}
	return [2][]string{args[:dash], args[dash:]}, nil
}

// parsePercent returns a percentage as a number: 0.05 for 5% or 5.
func parsePercent(text string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		return 0, usagef("%q is not a percentage such as 5%%", text)
	}
	return f / 100, nil
}

// A slice is a part of a file.
type slice struct {
	path         string
	part         bool // since and until count, not the flags
	since, until string
}

// parseSlice returns the part of a file that FILE@FROM..TO is.
func parseSlice(text string) (slice, error) {
	all := slice{path: text}
	at := strings.LastIndexByte(text, '@')
	from, to, ok := strings.Cut(text[at+1:], "..")
	if at <= 0 || !ok {
		return all, nil
	}
	if _, err := os.Stat(text); err == nil {
		return all, nil
	}
	for _, moment := range []string{from, to} {
		if _, err := stream.ParseMoment(moment); err != nil {
			return all, usagef("diff: %q: %w", text, err)
		}
	}
	return slice{path: text[:at], part: true, since: from, until: to}, nil
}

// each opens the files of both sides one by one and calls use with the samples of all, while all
// are open. It does not put the name of a file before the error of use. If a side has several
// files, those that are damaged or of another kind cause a warning, and in the end an error.
func (e *env) each(what string, sides [2][]slice, o formats.Options, choice selectFlags, use func([2][]*analyze.Samples) error) error {
	total := len(sides[0]) + len(sides[1])
	left := 0
	warn := func(err error) {
		left++
		e.warn(fmt.Errorf("%w; the other files are read", err))
	}
	var opened [2][]*analyze.Samples
	var failed error
	// next opens the file with a number, and those after it.
	var next func(side, number int) error
	next = func(side, number int) error {
		if side < len(sides) && number == len(sides[side]) {
			return next(side+1, 0)
		}
		if side == len(sides) {
			failed = use(opened)
			return nil
		}
		part := sides[side][number]
		choice := choice
		if part.part {
			choice.since, choice.until = part.since, part.until
		}
		o := o
		o.Many = total > stream.Many
		if err := choice.set(what, &o); err != nil {
			return err
		}
		several, entered := len(sides[side]) > 1, false
		var later error // of a file after this one, whose name it has
		err := e.read(what, []string{part.path}, o, func(in *formats.Input) error {
			s, err := samples(in, stream.Options{})
			if err != nil {
				return err
			}
			entered = true
			if several {
				s.Tolerate(warn)
			}
			opened[side] = append(opened[side], s)
			later = next(side, number+1)
			return later
		})
		if later != nil {
			return later
		}
		last := number == len(sides[side])-1 && len(opened[side]) == 0
		var paths []string
		for _, other := range sides[side] {
			paths = append(paths, other.path)
		}
		if gone := formats.Gone(part.path, paths, err); gone != nil && !last {
			e.warn(gone)
			return next(side, number+1)
		}
		if err == nil || entered || !several || last || errors.As(err, &usageError{}) || errors.Is(err, fs.ErrNotExist) || e.ctx.Err() != nil {
			return err
		}
		warn(err)
		return next(side, number+1)
	}
	err := errors.Join(next(0, 0), failed)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d of %d files could not be read as a whole", left, total)
	}
	return err
}

// errAbove says that --fail-above was exceeded.
type errAbove struct{ error }

func printDiff(e *env, sides [2][]string, o formats.Options, fl diffFlags) error {
	do := diff.Options{By: fl.by, Per: fl.per}
	above := math.Inf(1)
	var err error
	switch {
	case !slices.Contains(diff.Bys, fl.by):
		return usagef("diff: --by %q: it must be function, total, line or stack", fl.by)
	case !slices.Contains(diff.Pers, fl.per):
		return usagef("diff: --per %q: it must be wall, share or request", fl.per)
	case fl.top < 0:
		return usagef("diff: --top %d: it must not be negative", fl.top)
	case fl.failAbove != "":
		if above, err = parsePercent(fl.failAbove); err != nil {
			return usagef("diff: --fail-above: %w", err)
		}
	}
	var list [2][]slice
	for i, side := range sides {
		for _, text := range side {
			s, err := parseSlice(text)
			if err != nil {
				return err
			}
			list[i] = append(list[i], s)
		}
	}
	return e.each("diff", list, o, fl.choice, func(all [2][]*analyze.Samples) error {
		d, err := diff.Find(all[0], all[1], do)
		if err != nil {
			return err
		}
		var found comparedFindings
		if fl.findings {
			if found, err = e.compareFindings(list, o, fl.choice); err != nil {
				return err
			}
		}
		e.barDone()
		if fl.json {
			err = e.printJSON(foundDiff{d, found}, " ")
		} else {
			paint, width := newPaint(e.stdout), width(e.stdout)
			err = e.print(append(diffTable(sides, d, fl, paint, width), found.text(paint, min(width, whyWidth))...))
		}
		if err != nil {
			return err
		}
		return exceeded(d, above, fl.failAbove)
	})
}

// exceeded returns an error if rows take more than a limit beyond chance. text is the limit as it
// was given.
func exceeded(d *diff.Diff, limit float64, text string) error {
	if d.Per == "request" {
		limit, text = limit*float64(d.Request[0]), text+" of a request"
	}
	var list []error
	for i := range d.Rows {
		if r := &d.Rows[i]; r.Level != diff.LevelWhole && r.Significant && r.Low > limit {
			list = append(list, fmt.Errorf("%s takes %s more, at least %s, which is above %s", r.Name, moreOf(d, r, r.Delta), moreOf(d, r, r.Low), text))
		}
	}
	if list == nil {
		return nil
	}
	return errAbove{errors.Join(list...)}
}
