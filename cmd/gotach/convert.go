package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gotach/profiler/internal/analyze/requests"
	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/stream"
	"github.com/spf13/cobra"
)

func newConvert(e *env) *cobra.Command {
	var o formats.Options
	var out, to, function, slowest string
	var choice selectFlags
	var sources sourceFlags
	cmd := &cobra.Command{
		Use:   "convert IN... -o OUT",
		Short: "Convert a profile to another format",
		Long: `Convert a profile to another format. gotach recognizes the format of IN by its content. The format of
OUT is --to, else that of OUT's extension; see "gotach formats". OUT is a directory for a
format of several files, and - is standard output. An existing OUT is replaced once the new file is complete.

Several INs, such as the files of a session with rotation, become one profile in the order of their
start times; see "gotach report --help". If they are of several processes, the goroutines in OUT have
the labels host, pid, process, service and version. Memory hardly grows with the number of files,
except for tach, cpython315, jsonl and dcpi: about 800 bytes per goroutine.

` + selectHelp + `
A selection can be written in formats of sums or runs, such as pprof and firefox, not in formats of
samples. --slowest 1% selects all time of the slowest requests, on a CPU and waiting; --func and
--label KEY define a request, as in "gotach requests".

With --cpu, or if OUT ends in .pgo, a pprof profile has CPU time only, for go build -pgo. This needs
the program's executable: --executable names it if it was moved.

If a viewer cannot show so many goroutines, formats of runs merge some. No time is lost, and a
warning says how many. A flame graph leaves out what is too narrow to see.

` + sourceHelp + `
A nytprof profile contains these files; standard error says how many.`,
		Example: `  gotach convert app.tach -o app.pb.gz && go tool pprof -http=: app.pb.gz
  gotach convert app.tach -o app.svg              # a flame graph for documents
  gotach convert app.tach -o app.firefox.json.gz  # for Firefox's profiler, Perfetto
  gotach convert app.tach -o app.speedscope.json  # for www.speedscope.app
  gotach convert app.tach --label handler=/search --since -60s -o slow.pb.gz
  gotach convert app.tach --slowest 1% -o slow.pb.gz && go tool pprof -http=: slow.pb.gz
  gotach convert app.tach -o tables --to parquet  # for databases
  gotach convert app.tach -o default.pgo && go build -pgo=default.pgo
  gotach convert app.*.tach -o all.tach
  gotach convert app.tach -o app.bin && python3.15 -m profiling.sampling replay app.bin`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			var ro *requests.Options
			switch {
			case slowest != "":
				r, err := requestOptions("convert", function, slowest, &choice)
				if err != nil {
					return err
				}
				ro = &r
			case function != "":
				return usagef("convert: --func says what a request is; it needs --slowest")
			}
			if err := choice.set("convert", &o); err != nil {
				return err
			}
			return convert(e, args, out, to, o, ro, &sources)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write to `OUT`")
	f.StringVar(&to, "to", "", "write `FORMAT` (default: from OUT's extension)")
	f.BoolVar(&o.Uncompressed, "uncompressed", false, "tach, cpython315, nytprof, firefox: do not compress (firefox: always for *.json)")
	f.BoolVar(&o.Exact, "exact", false, "cpython315: write each sample as recorded; readers that count samples then show too little waiting")
	f.BoolVar(&o.NoSource, "no-source", false, "nytprof: leave out the source code")
	f.BoolVar(&o.Goroutines, "goroutines", false, "collapsed: begin each stack with its goroutine; spx: one report per goroutine; pprof: keep the label goroutine above a million; otlp: add thread.id")
	f.BoolVar(&o.Microseconds, "microseconds", false, "spx: write times in µs with decimals, as in the format's document")
	f.BoolVar(&o.CPU, "cpu", false, "collapsed, pprof, flamegraph: weigh by CPU time, not wall time (always for *.pgo)")
	f.StringVar(&o.Executable, "executable", "", "pprof with --cpu: the profiled program is `FILE` (default: its path in the profile)")
	f.StringVar(&slowest, "slowest", "", "only the slowest `PERCENT` of the requests")
	f.StringVar(&function, "func", "", "with --slowest: a request is an invocation of a function that matches `REGEXP`")
	sources.add(cmd)
	choice.add(cmd)
	completeFormats(cmd, "to", (*formats.Format).CanWrite)
	fromFlags(cmd, &o)
	return cmd
}

// convert converts files. If slow is not nil, only the slowest requests are selected.
func convert(e *env, in []string, out, to string, o formats.Options, slow *requests.Options, sources *sourceFlags) error {
	if out == "" {
		return usagef("convert: no output; set it with -o OUT")
	}
	target, err := formats.TargetFormat(out, to)
	switch {
	case err != nil && to == "" && out == "-":
		return usagef("convert: standard output needs --to FORMAT; gotach formats lists the formats")
	case err != nil && to == "":
		return usagef("convert: %w; set it with --to FORMAT", err)
	case err != nil:
		return usagef("convert: --to: %w", err)
	case out == "-" && target.Directory:
		return usagef("convert: %s is a format of several files and cannot go to standard output; set a directory with -o", target.Name)
	}
	if out != "-" && !target.Directory {
		if err := formats.Creatable(out); err != nil {
			return err
		}
	}
	sources.none = o.NoSource || target.Name != "nytprof"
	read, err := sources.reader("convert")
	if err != nil {
		return err
	}
	if read != nil {
		o.Source = read.Text
	}
	var warning error
	o.PGO = strings.HasSuffix(strings.ToLower(out), ".pgo")
	o.CPU = o.CPU || o.PGO
	o.Warn = func(err error) { warning = errors.Join(warning, err) }
	if slow != nil && o.Select == nil {
		o.Select = &stream.Selection{}
	}
	err = e.read("convert", in, o, func(input *formats.Input) error {
		if slow != nil {
			if err := selectSlow(input, o.Select, *slow); err != nil {
				return err
			}
		}
		o.Warn = func(err error) { warning = errors.Join(warning, formats.Named(out, err)) }
		if out == "-" {
			return input.Write(e.stdout.data(), target.Name, o)
		}
		return input.Convert(out, target.Name, o)
	})
	if warning != nil {
		e.warn(warning)
	}
	if err == nil {
		e.shown(read, out)
	}
	return err
}

// selectSlow reads a profile and selects its slowest requests.
func selectSlow(in *formats.Input, sel *stream.Selection, o requests.Options) error {
	s, err := samples(in, stream.Options{Labels: true})
	if err != nil {
		return err
	}
	slow, err := requests.FindSlow(s, o)
	if err != nil {
		return err
	}
	sel.Pick = slow.Pick
	sel.What = fmt.Sprintf("the slowest %d of %d requests", slow.Count, slow.Of)
	return nil
}
