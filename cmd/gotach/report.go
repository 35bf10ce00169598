package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

// reportFlags are the flags of report.
type reportFlags struct {
	sort, by, weight   string
	focus, ignore, own string
	callers            string
	tree               bool
	top                int
	json, wide         bool
	blocked, idle      bool
	apart              bool
	screen             bool // nothing was asked for
	choice             selectFlags
}

// defaultTop is the number of rows that fit on a screen.
const defaultTop = 30

func newReport(e *env) *cobra.Command {
	var o formats.Options
	var fl reportFlags
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Show where the time went",
		Long: `Show where the time went: by function, line, file, package, goroutine or state. Without flags the
report is one screen, which begins with the findings of gotach why.

SELF is the time in which a function was the innermost frame, TOTAL the time in which it was anywhere
in the stack. Waiting counts like running: the innermost frame of a waiting goroutine is the reason,
such as [chan receive] or [sleep]. Percentages are of all time, or of what --focus and --ignore leave.
The line of a function is the one with the most time; the lines in parentheses are its first and last. The bar
has the time on a CPU (█), running without a core because the kernel gave none (▒), and other time
(░). On a terminal a column shows when the time was, from start to end, each row with its own scale.

Idle time is left out: waits that make nothing slower, such as those for the next request or job.
--idle shows it. So is what is no work of the program: leaked goroutines, clients of the program's own
server, as in a load test, and handlers of profiles. --apart shows these. The header says how much is left out.

--blocked shows what goroutines waited for and where: the innermost line of the program's own code,
which is neither in the standard library nor in another module. --own sets what that is. In stacks
without any it is the innermost line of another module, else of the standard library.

--tree shows which function calls which, from the outermost function; --callers what calls a function.
The path with the most time is first; a path without branches is one line. --top is the number of lines.

--by sets what a row is:
  state        what goroutines did: "running", "no core" (▒), "runnable"
               (waiting for the Go scheduler), "syscall" and "C" (each also
               "on CPU"), or what they waited for
  label:KEY    the value of a pprof label, or a fact about the process:
               label:host, label:pid, label:process (both), label:service,
               label:version
  entry        where goroutines were created; for tests, the test's name
  object       the lock, channel or connection that they waited for
  peer         the far end of [IO wait], such as tcp 10.2.3.4:5432; accepted
               connections are "tcp :8080 from" the client's host
  ran-instead  who had the cores while goroutines were runnable or had no
               core: a label with at most 16 values, else the goroutine's
               first function; [Go runtime], [other programs], [CPU quota],
               [free cores]

--weight cpu counts CPU time only. --weight latency divides wall-clock time, so the first row is what to
make faster to finish sooner. An instant goes to what is on a CPU; if nothing is, to what waits and is
not idle, locks and WaitGroups only if nothing else waits; else to [idle]. Several files share one
clock, even those of several processes, where the work of one hides the waits of others: give the files of one
process.

The one-screen report compares slow requests with others if the profile has at most 50,000 goroutines
and 5 million samples; gotach requests has no limit. It names locks from the source as gotach locks
does, which has --source too.

CPU time that no goroutine used is in [scheduler], [C threads] and [profiler]. Time of goroutines too
short for a sample is in [not seen].

` + selectHelp + `

Several files, such as those of a session with rotation, are read as one profile. A wait across two
files counts once. Goroutines of different processes are different: 10^12 is added to the ids of the
second process, twice that to those of the third, and so on. Time of a missing file is "[not
recorded]". A damaged or unsuitable file among several causes a warning and exit code 1; the others
are read.

For a process or a URL, report runs gotach top. For a core file, see "gotach help core".

Of an incomplete NYTProf file, report prints the complete part, then the error. CALLED is the number
of calls of a function, from NYTProf and SPX files.`,
		Example: `  gotach report app.tach
  gotach report app.tach --sort total --focus 'net/http'
  gotach report app.tach --blocked
  gotach report app.tach --callers '(*Cache).Get'
  gotach report app.tach --by label:handler
  gotach report app.tach --weight latency --sort total
  gotach report app.tach --by goroutine
  gotach report app.tach --by line --ignore 'runtime\.' --top 0
  gotach report app.tach --label handler=/search --since -60s
  gotach report app.*.tach
  gotach report fleet/*.tach --by label:version
  gotach report fleet/*.tach --label service=checkout --label host=web-1
  gotach report app.tach --json | jq '.rows[0]'
  gotach report nytprof.out --by line`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cmd.Flags().NFlag() == 0 && (isURL(args[0]) || isProcess(args[0])) {
				return runTop(e, args[0], usualWindow, &sourceFlags{})
			}
			if fl.json && !cmd.Flags().Changed("top") {
				fl.top = 0
			}
			if err := fl.choice.set("report", &o); err != nil {
				return err
			}
			fl.screen = true
			for _, name := range []string{"json", "by", "blocked", "own", "sort", "weight", "focus", "ignore", "top", "tree", "callers"} {
				fl.screen = fl.screen && !cmd.Flags().Changed(name)
			}
			return printReport(e, args, o, fl)
		},
	}
	f := cmd.Flags()
	f.StringVar(&fl.sort, "sort", "self", "sort by `TIME`: self, total or cpu")
	f.StringVar(&fl.by, "by", "function", "a row for each `WHAT`: function, line, file, package, goroutine, state, blocked, entry, object, peer, ran-instead or label:KEY")
	f.BoolVar(&fl.blocked, "blocked", false, "show where the program's own code waited")
	f.StringVar(&fl.own, "own", "", "with --blocked: what matches `REGEXP` is the program's own code")
	f.BoolVar(&fl.tree, "tree", false, "show which function calls which")
	f.StringVar(&fl.callers, "callers", "", "show what calls `FUNC`, a name or a regular expression")
	f.StringVar(&fl.weight, "weight", "wall", "count `WHAT`: wall time, cpu time or latency")
	f.BoolVar(&fl.idle, "idle", false, "show idle time too")
	f.BoolVar(&fl.apart, "apart", false, "show what is set apart too, such as leaks")
	f.StringVar(&fl.focus, "focus", "", "only stacks with a function or file that matches `REGEXP`")
	f.StringVar(&fl.ignore, "ignore", "", "no stacks with a function or file that matches `REGEXP`")
	f.IntVar(&fl.top, "top", defaultTop, "print at most `N` rows; 0: all, as --json does by default")
	f.BoolVar(&fl.wide, "wide", false, "do not shorten names (the default without a terminal)")
	f.BoolVar(&fl.json, "json", false, "print one JSON object")
	fl.choice.add(cmd)
	completeWords(cmd, "sort", words(profile.Sorts))
	completeWords(cmd, "by", append(words(profile.Bys), report.ByEntry, report.ByObject, report.ByPeer, report.ByRan, report.ByLabel))
	completeWords(cmd, "weight", report.Weights)
	completeAvailable(cmd, "callers", func(a *available) []string { return a.functions })
	completeAvailable(cmd, "focus", (*available).patterns)
	completeAvailable(cmd, "ignore", (*available).patterns)
	fromFlags(cmd, &o)
	return cmd
}

func words[T ~string](list []T) (out []string) {
	for _, w := range list {
		out = append(out, string(w))
	}
	return out
}

// options checks the flags. It returns how samples are added up and what is reported of the sums.
func (fl *reportFlags) options() (ao report.Options, o profile.ReportOptions, err error) {
	ao = report.Options{Weight: fl.weight, Idle: fl.idle, Apart: fl.apart, Source: source.Usual().Read}
	o = profile.ReportOptions{By: profile.By(fl.by), Sort: profile.Sort(fl.sort), Top: fl.top}
	if fl.blocked {
		if fl.by != "function" && fl.by != string(profile.ByBlocked) {
			return ao, o, usagef("report: --blocked and --by %s exclude each other", fl.by)
		}
		o.By = profile.ByBlocked
	}
	key, isLabel := strings.CutPrefix(fl.by, report.ByLabel)
	if isLabel || fl.by == report.ByEntry || fl.by == report.ByObject || fl.by == report.ByPeer || fl.by == report.ByRan {
		ao.Group, o.By = fl.by, profile.ByGroup
	}
	ao.Goroutines = o.By == profile.ByGoroutine
	switch {
	case (fl.tree || fl.callers != "") && (fl.by != "function" || fl.blocked), fl.tree && fl.callers != "":
		return ao, o, usagef("report: only one of --tree, --callers, --blocked and --by can be set")
	case fl.by == report.ByRan && fl.weight != report.Weights[0]:
		return ao, o, usagef("report: --by %s is of the time in which goroutines waited for a core; it has no --weight", report.ByRan)
	case isLabel && key == "":
		return ao, o, usagef("report: --by label: the label's key is missing: --by label:KEY")
	case o.By != profile.ByGroup && !slices.Contains(profile.Bys, o.By):
		return ao, o, usagef("report: --by %q: it must be function, line, file, package, goroutine, state, blocked, entry, object, peer, ran-instead or label:KEY", fl.by)
	case !slices.Contains(profile.Sorts, o.Sort):
		return ao, o, usagef("report: --sort %q: it must be self, total or cpu", fl.sort)
	case !slices.Contains(report.Weights, fl.weight):
		return ao, o, usagef("report: --weight %q: it must be wall, cpu or latency", fl.weight)
	case fl.top < 0:
		return ao, o, usagef("report: --top %d: it must not be negative", fl.top)
	}
	for _, x := range []struct {
		flag, text string
		into       **regexp.Regexp
	}{{"focus", fl.focus, &o.Focus}, {"ignore", fl.ignore, &o.Ignore}, {"own", fl.own, &o.Own}} {
		if *x.into, err = compile(x.flag, x.text); err != nil {
			return ao, o, err
		}
	}
	return ao, o, nil
}

func compile(flag, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	re, err := pattern(text)
	if err != nil {
		return nil, usagef("report: --%s: %w", flag, err)
	}
	return re, nil
}

func printReport(e *env, paths []string, o formats.Options, fl reportFlags) error {
	ao, ro, err := fl.options()
	if err != nil {
		return err
	}
	o.Prefix = true
	return e.read("report", paths, o, func(in *formats.Input) error {
		instant := in.Instant()
		switch {
		case instant && fl.screen:
			return e.instantScreen(in, paths, ao, o)
		case instant && (fl.weight == "latency" || fl.by == report.ByRan):
			return usagef("report: --weight latency and --by %s need times, and %s is of one instant", report.ByRan, in.Name)
		}
		if fl.screen && in.HasSession() {
			s, err := e.newScreen(in, paths, ao, o.Select == nil && !fl.idle && !fl.apart)
			if err == nil {
				err = e.selected(paths, &o) // before a word of what was not selected
			}
			if err != nil {
				return err
			}
			e.barDone()
			if fl.wide {
				s.width = unlimited
			}
			s.choice = o.Select
			return e.print(s.render())
		}
		ao.Series = isTerminal(e.stdout) && !fl.json && !instant
		r, err := makeReport(in, ao, ro)
		if err == nil && in.HasSamples() {
			err = e.selected(paths, &o)
		}
		if err != nil {
			return err
		}
		if fl.tree || fl.callers != "" {
			return e.printTree(in, r, ao, ro, fl, o.Select)
		}
		e.barDone()
		if fl.json {
			err = e.printJSON(r, " ")
		} else {
			t := e.newTable(in, r, ro, ao)
			if fl.wide {
				t.width = unlimited
			}
			t.choice = o.Select
			err = e.print(t.render())
		}
		if err != nil {
			return err
		}
		return in.CutOff()
	})
}

// printTree prints a tree of calls.
func (e *env) printTree(in *formats.Input, r *profile.Report, ao report.Options, ro profile.ReportOptions, fl reportFlags, choice *stream.Selection) error {
	var tree *profile.Tree
	var err error
	if fl.tree {
		tree, err = profile.NewTree(r.Profile, ro)
	} else {
		var which *regexp.Regexp
		if which, err = functions(r.Profile, fl.callers); err == nil {
			tree, err = profile.NewCallers(r.Profile, ro, which)
		}
	}
	if err != nil {
		return err
	}
	e.barDone()
	if fl.json {
		return e.printJSON(tree, " ")
	}
	t := &treeTable{reportTable: e.newTable(in, &tree.Report, ro, ao), tree: tree, callers: !fl.tree}
	if fl.wide {
		t.width = unlimited
	}
	t.choice = choice
	return e.print(t.render())
}

// makeReport makes a report of a profile of any format.
func makeReport(in *formats.Input, ao report.Options, ro profile.ReportOptions) (*profile.Report, error) {
	plain := ao.Group == "" && ao.Weight == report.Weights[0]
	if plain && in.KnowsMore() {
		return in.Report(ro)
	}
	if in.HasSamples() {
		src, err := in.Source(ao.Stream())
		if err != nil {
			return nil, err
		}
		p, err := report.NewProfile(src, ao)
		if err != nil {
			return nil, err
		}
		return profile.New(p, ro)
	}
	key, isLabel := strings.CutPrefix(ao.Group, report.ByLabel)
	if ao.Weight == "latency" || ao.Group != "" && !isLabel {
		return nil, in.OnlySums()
	}
	if plain {
		return in.Report(ro)
	}
	p, err := in.Profile()
	if err != nil {
		return nil, err
	}
	if ao.Weight == "cpu" {
		p = p.OnlyCPU()
	}
	if key != "" {
		p = p.GroupByLabel(key)
	}
	return profile.New(p, ro)
}

// newTable returns a table of a report, without what the command line says.
func (e *env) newTable(in *formats.Input, r *profile.Report, ro profile.ReportOptions, ao report.Options) *reportTable {
	return &reportTable{
		paint: newPaint(e.stdout), width: width(e.stdout), o: ro, r: r, p: r.Profile,
		name: in.Name, format: in.Format.Name, group: ao.Group, weight: ao.Weight,
		spark: ao.Series && isTerminal(e.stdout), unfinished: len(in.Unfinished()) > 0,
	}
}
