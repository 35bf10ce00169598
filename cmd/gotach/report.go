package main

import (
	"regexp"
	"slices"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/spf13/cobra"
)

// reportFlags are the flags of report.
type reportFlags struct {
	sort, by      string
	focus, ignore string
	top           int
	json, wide    bool
	choice        selectFlags
}

// defaultTop is the number of rows that fit on a screen.
const defaultTop = 30

func newReport(e *env) *cobra.Command {
	var o formats.Options
	var fl reportFlags
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Show where the time went",
		Long: `Show where the time went: by function, line, file, package, goroutine or state.

SELF is the time in which a function was the innermost frame. TOTAL is the time in which
it was anywhere in the stack. Waiting time counts like running time: the innermost frame
of a waiting goroutine is the reason, such as [chan receive] or [sleep]. Percentages
refer to the sum of all times, with --focus or --ignore to the sum of those shown. The line
of a function is the one with the most time; the others are between those in parentheses.
The bar shows the time on a CPU (█), the time in which
goroutines ran but the kernel gave them no core (▒), and the other time (░).

--by state shows what goroutines did: "running", "no core" (as ▒), "runnable" (waiting
for the Go scheduler), "syscall" and "C" (each also "on CPU"), or what they waited for.
CPU time that no goroutine used is in [scheduler], [C threads] and [profiler]. Time of
goroutines too short for a sample is in [not seen].

` + selectHelp + `

Several files, such as those of a session with rotation, are read as one profile. A wait
across two files counts once. Goroutines of different processes are different rows: if
two processes have the same id, 10^12 is added to the later one. Time for which a file is
missing is shown as "[not recorded]".

If a NYTProf file is incomplete, report prints the complete part and then the error.
CALLED is the number of calls of a function, from NYTProf and SPX files.`,
		Example: `  gotach report app.tach
  gotach report app.tach --sort total --focus 'net/http'
  gotach report app.tach --by goroutine
  gotach report app.tach --by line --ignore 'runtime\.' --top 0
  gotach report app.tach --label handler=/search --since -60s
  gotach report app.*.tach
  gotach report app.tach --json | jq '.rows[0]'
  gotach report nytprof.out --by line`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if fl.json && !cmd.Flags().Changed("top") {
				fl.top = 0
			}
			if err := fl.choice.set("report", &o); err != nil {
				return err
			}
			return report(e, args, o, fl)
		},
	}
	f := cmd.Flags()
	f.StringVar(&fl.sort, "sort", "self", "sort by `self|total` time")
	f.StringVar(&fl.by, "by", "function", "print a row for each `function|line|file|package|goroutine|state`")
	f.StringVar(&fl.focus, "focus", "", "show only stacks with a function or file that matches `REGEXP`")
	f.StringVar(&fl.ignore, "ignore", "", "leave out stacks with a function or file that matches `REGEXP`")
	f.IntVar(&fl.top, "top", defaultTop, "print at most `N` rows, 0 for all (the default with --json)")
	f.BoolVar(&fl.wide, "wide", false, "do not shorten names (the default without a terminal)")
	f.BoolVar(&fl.json, "json", false, "print one JSON object")
	fl.choice.add(cmd)
	completeWords(cmd, "sort", []string{"self", "total"})
	var bys []string
	for _, by := range profile.Bys {
		bys = append(bys, string(by))
	}
	completeWords(cmd, "by", bys)
	fromFlags(cmd, &o)
	return cmd
}

// options checks the flags.
func (fl *reportFlags) options() (o profile.ReportOptions, err error) {
	o = profile.ReportOptions{By: profile.By(fl.by), Sort: profile.Sort(fl.sort), Top: fl.top}
	switch {
	case !slices.Contains(profile.Bys, o.By):
		return o, usagef("report: --by %q: it must be function, line, file, package, goroutine or state", fl.by)
	case o.Sort != profile.SortSelf && o.Sort != profile.SortTotal:
		return o, usagef("report: --sort %q: it must be self or total", fl.sort)
	case fl.top < 0:
		return o, usagef("report: --top %d: it must not be negative", fl.top)
	}
	if o.Focus, err = compile("focus", fl.focus); err != nil {
		return o, err
	}
	o.Ignore, err = compile("ignore", fl.ignore)
	return o, err
}

func compile(flag, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, usagef("report: --%s: %w", flag, err)
	}
	return re, nil
}

func report(e *env, paths []string, o formats.Options, fl reportFlags) error {
	ro, err := fl.options()
	if err != nil {
		return err
	}
	o.Prefix = true
	return e.read("report", paths, o, func(in *formats.Input) error {
		r, err := in.Report(ro)
		if err != nil {
			return err
		}
		e.barDone()
		if fl.json {
			err = e.printJSON(r, " ")
		} else {
			columns := width(e.stdout)
			if fl.wide {
				columns = unlimited
			}
			t := &reportTable{
				paint: newPaint(e.stdout), width: columns, o: ro, r: r, p: r.Profile,
				name: in.Name, format: in.Format.Name, choice: o.Select,
			}
			_, err = e.stdout.Write(t.render())
		}
		if err != nil {
			return err
		}
		return in.CutOff()
	})
}
