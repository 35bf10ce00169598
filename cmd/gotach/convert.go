package main

import (
	"errors"
	"strings"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newConvert(e *env) *cobra.Command {
	var o formats.Options
	var out, to string
	var choice selectFlags
	cmd := &cobra.Command{
		Use:   "convert IN... -o OUT",
		Short: "Convert a profile to another format",
		Long: `Convert a profile to another format. --to sets the format of OUT; without it OUT's
extension decides. The content of IN decides its format. OUT is a directory for a
format of several files, and - is standard output. An existing OUT is replaced when
the new file is complete. "gotach formats" lists the formats.

Several INs, such as the files of a session with rotation, are read as one profile,
in the order of their start times; see "gotach report --help". The memory hardly grows
with their number. For tach, cpython315, jsonl and dcpi it does: some 800 bytes for each
goroutine.

` + selectHelp + `
With --cpu, or if OUT ends in .pgo, a pprof profile has CPU time only, and go build -pgo takes it. The
program's file must be where it was, or --executable says where it is.

A selection can be written in formats of sums, such as pprof, not in formats of samples.`,
		Example: `  gotach convert app.tach -o app.pb.gz && go tool pprof -http=: app.pb.gz
  gotach convert app.tach -o - --to collapsed | flamegraph.pl > app.svg
  gotach convert app.tach --label handler=/search --since -60s -o slow.pb.gz
  gotach convert app.tach -o default.pgo && go build -pgo=default.pgo
  gotach convert app.*.tach -o all.tach
  gotach convert app.tach -o app.bin && python3.15 -m profiling.sampling replay app.bin`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := choice.set("convert", &o); err != nil {
				return err
			}
			return convert(e, args, out, to, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write to `OUT`")
	f.StringVar(&to, "to", "", "write this `FORMAT` (default: from OUT's extension)")
	f.BoolVar(&o.Uncompressed, "uncompressed", false, "tach, cpython315, nytprof: do not compress")
	f.BoolVar(&o.Exact, "exact", false, "cpython315: write each sample as recorded; readers that count samples then show too little waiting")
	f.BoolVar(&o.NoSource, "no-source", false, "nytprof: leave out the source code")
	f.BoolVar(&o.Goroutines, "goroutines", false, "collapsed: begin each stack with its goroutine; spx: write one report per goroutine; pprof: keep the label goroutine even if there are over a million")
	f.BoolVar(&o.Microseconds, "microseconds", false, "spx: write times in µs with decimals, as in the format's document")
	f.BoolVar(&o.CPU, "cpu", false, "collapsed, pprof: use CPU time as weight instead of wall time (always for a file *.pgo)")
	f.StringVar(&o.Executable, "executable", "", "pprof with --cpu: the profiled program is `FILE` (default: where it was)")
	choice.add(cmd)
	completeFormats(cmd, "to", (*formats.Format).CanWrite)
	fromFlags(cmd, &o)
	return cmd
}

func convert(e *env, in []string, out, to string, o formats.Options) error {
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
	var warning error
	o.PGO = strings.HasSuffix(strings.ToLower(out), ".pgo")
	o.CPU = o.CPU || o.PGO
	o.Warn = func(err error) { warning = errors.Join(warning, err) }
	err = e.read("convert", in, o, func(input *formats.Input) error {
		o.Warn = func(err error) { warning = errors.Join(warning, formats.Named(out, err)) }
		if out == "-" {
			return input.Write(e.stdout, target.Name, o)
		}
		return input.Convert(out, target.Name, o)
	})
	if warning != nil {
		e.warn(warning)
	}
	return err
}
