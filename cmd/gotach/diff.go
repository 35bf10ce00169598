package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

// diffFlags are the flags of diff.
type diffFlags struct {
	by, per   string
	failAbove string
	top       int
	json      bool
	choice    selectFlags
}

func newDiff(e *env) *cobra.Command {
	var o formats.Options
	var fl diffFlags
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what changed between two profiles, and what may be chance",
		Long: `Show what changed between two profiles. A row is a function on a CPU, or a wait and the
innermost function of the program's own code that waits, such as "[sleep] main.retry".
Idle waits have rows too, unlike in gotach report.
[no core] is time in which goroutines ran but the kernel gave them no core, [runnable] time
in which they waited for the Go scheduler. A and B are the row's time in percent of the time
on the wall clock: 100 % is one goroutine all the time. With --per share they are in percent
of the time of all goroutines. With --per request they are the row's time for each request, as
gotach requests finds them: it does not change if there is more load.

Samples of one wait are not independent, so their number says nothing about chance. Each
profile is divided into windows instead, at most a second long, and the windows of one side
are compared with those of the other (Mann-Whitney; Holm's correction for the number of
rows). Successive windows count as one as far as they depend on each other. The interval of
the difference is at 95 % (bootstrap). A row with ~ is not significant: chance may be the
reason. Not tested are rows of less than 0.1 %, and [no core], [runnable], [scheduler] and
[profiler], which depend on the load of the machine. A difference does not count if it is
less than 2 % of the row. If [no core] and [runnable] differ, so may all other rows: what is
less than that counts only if it is more than half of the row, also if the side with more CPU
time is reduced to as much as the other, and at least a twentieth of that difference.

A and B are files. With -- between the sides, each side can have many. FILE@FROM..TO is a
part of a profile, such as app.tach@0s..30s; FROM and TO are times as those of --since, may be
left out, and count in place of these flags. The files of a side are of one load; each has windows of its own. If a
side has many, one that is damaged or of another kind causes a warning, and the exit code 1 in the end. If the Go versions
differ, all function literals of a function are one row, as they are numbered differently.

` + selectHelp + `
With --per request, requests count that have a sample that they select.

With --fail-above 5%, diff exits with 3 if a row is significant and takes more than 5 points
more on side B, by the lower bound of the interval. With --per request, 100 % is the time that a
request took on side A.`,
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
			return diff(e, sides, o, fl)
		},
	}
	f := cmd.Flags()
	f.StringVar(&fl.by, "by", "function", "print a row for each `function|total|line|stack`; total: with what the function calls")
	f.StringVar(&fl.per, "per", "wall", "divide times by `wall|share|request`: the time on the clock, that of all goroutines, the number of requests")
	f.StringVar(&fl.failAbove, "fail-above", "", "exit with 3 if a row takes `PERCENT` more, significantly")
	f.IntVar(&fl.top, "top", defaultTop, "print at most `N` rows, 0 for all (--json prints all)")
	f.BoolVar(&fl.json, "json", false, "print one JSON object")
	fl.choice.add(cmd)
	completeWords(cmd, "by", analyze.DiffBys)
	completeWords(cmd, "per", analyze.DiffPers)
	fromFlags(cmd, &o)
	return cmd
}

// twoSides returns the files of both sides. dash is the number of arguments before --, or -1.
func twoSides(args []string, dash int) (sides [2][]string, err error) {
	if dash < 0 && len(args) == 2 {
		dash = 1
	}
	if dash <= 0 || dash >= len(args) {
		return sides, usagef("diff: %d arguments, want two files, or -- between the files of both sides", len(args))
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

// each opens the files of both sides one by one and calls use with the samples of all, while all are open. It does not
// put the name of a file before the error of use. If a side has several files, those that are damaged or of another kind
// cause a warning, and in the end an error.
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
			return next(side, number+1)
		})
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

func diff(e *env, sides [2][]string, o formats.Options, fl diffFlags) error {
	do := analyze.DiffOptions{By: fl.by, Per: fl.per}
	above := math.Inf(1)
	var err error
	switch {
	case !slices.Contains(analyze.DiffBys, fl.by):
		return usagef("diff: --by %q: it must be function, total, line or stack", fl.by)
	case !slices.Contains(analyze.DiffPers, fl.per):
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
		d, err := analyze.FindDiff(all[0], all[1], do)
		if err != nil {
			return err
		}
		e.barDone()
		if fl.json {
			err = e.printJSON(d, " ")
		} else {
			_, err = e.stdout.Write(diffTable(sides, d, fl.top, newPaint(e.stdout), width(e.stdout)))
		}
		if err != nil {
			return err
		}
		var exceeded []error
		for i := range d.Rows {
			limit, of := above, ""
			if d.Per == "request" {
				limit, of = above*float64(d.Request[0]), " of a request"
			}
			if r := &d.Rows[i]; r.Significant && r.Low > limit {
				exceeded = append(exceeded, fmt.Errorf("%s takes %s more, at least %s, which is above %s%s",
					r.Name, amount(d, r.Delta), amount(d, r.Low), fl.failAbove, of))
			}
		}
		if len(exceeded) == 0 {
			return nil
		}
		return errAbove{errors.Join(exceeded...)}
	})
}

// points returns a share as text.
func points(f float64) string { return digits(100*math.Abs(f)) + " %" }

// amount returns what a row takes as text, without a sign.
func amount(d *analyze.Diff, f float64) string {
	if d.Per == "request" {
		return duration(time.Duration(math.Abs(f)))
	}
	return points(f)
}

// diffTable returns the rows as text:
//
//	A before.tach: 20.0s, 60 windows of 333ms
//	B after.tach: 20.0s, 60 windows of 333ms
//	1 of 9 rows differs significantly
//
//	      A       B    DIFFERENCE  95 % INTERVAL            P
//	      0  2.01 %       +2.01 %  +1.88 %..+2.15 %    <0.001  main.extra  new
//	 57.1 %  56.0 %  ~    -1.06 %  -4.21 %..+2.20 %         1  main.parse
func diffTable(sides [2][]string, d *analyze.Diff, top int, paint paint, width int) []byte {
	var b bytes.Buffer
	for i, files := range sides {
		name := filepath.ToSlash(files[0])
		if len(files) > 1 {
			name += fmt.Sprintf(" and %d more", len(files)-1)
		}
		printf(&b, "%s %s, %s of %s\n", paint.bold(string(rune('A'+i))+" "+name+":"), duration(d.Length[i]),
			plural(int64(d.Windows[i]), "window"), duration(d.Window))
		if d.Per == "request" {
			printf(&b, "  %s of %s on average\n", plural(int64(d.Requests[i]), "request"), duration(d.Request[i]))
		}
	}
	significant := 0
	for i := range d.Rows {
		if d.Rows[i].Significant {
			significant++
		}
	}
	printf(&b, "%d of %s significantly different; ~ may be chance\n\n", significant, plural(int64(len(d.Rows)), "row"))
	head := fmt.Sprintf("%7s %7s    %10s  %-19s %7s  ", "A", "B", "DIFFERENCE", "   95 % INTERVAL", "P")
	printf(&b, "%s\n", paint.bold(strings.TrimRight(head, " ")))
	room := width - utf8.RuneCountInString(head)
	for i := range d.Rows {
		if top > 0 && i >= top {
			printf(&b, "%s\n", paint.dim(fmt.Sprintf("%d more rows; --top 0 shows all", len(d.Rows)-top)))
			break
		}
		r := &d.Rows[i]
		least := 0.00005
		if d.Per == "request" {
			least = 1000 // ns
		}
		sign := func(f float64) string {
			switch {
			case math.Abs(f) < least:
				return "0"
			case f < 0:
				return "-" + amount(d, f)
			}
			return "+" + amount(d, f)
		}
		plain := func(f float64) string { return strings.TrimPrefix(sign(f), "+") }
		mark, delta := "~", fmt.Sprintf("%10s", sign(r.Delta))
		if r.Significant {
			mark = " "
			delta = paint.good(delta)
			if r.Delta > 0 {
				delta = paint.busy(fmt.Sprintf("%10s", sign(r.Delta)))
			}
		}
		note := ""
		switch {
		case r.A == 0:
			note = "  new"
		case r.B == 0:
			note = "  gone"
		}
		p := "<0.001"
		if r.P >= 0.001 {
			p = digits(r.P)
			if r.P < 0.1 {
				p = fmt.Sprintf("%.3f", r.P)
			}
		}
		interval := fmt.Sprintf("%8s..%-8s", sign(r.Low), sign(r.High))
		if !r.Tested() {
			interval, p = "    not tested", ""
		}
		printf(&b, "%7s %7s  %s %s  %-19s %7s  %s%s\n", plain(r.A), plain(r.B), mark, delta, interval, p,
			shorten(profile.FuncName(r.Name), max(minName, room-len(note))), paint.dim(note))
	}
	return b.Bytes()
}
