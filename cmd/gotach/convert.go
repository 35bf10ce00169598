package main

import (
	"errors"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newConvert(e *env) *cobra.Command {
	var o formats.Options
	var out, to string
	cmd := &cobra.Command{
		Use:   "convert IN... -o OUT",
		Short: "Make a file of another format",
		Long: `Make a file of another format. --to names the format, or OUT's extension tells it.
The content of IN tells its format. For formats of several files OUT is a directory;
- is standard output. An existing OUT is replaced once the new file is complete.
gotach formats lists the formats.

Several INs, such as the files of a session that was rotated, are one profile, in
the order of their start times; see gotach report --help.`,
		Example: `  gotach convert app.tach -o app.pb.gz && go tool pprof -http=: app.pb.gz
  gotach convert app.tach -o - --to collapsed | flamegraph.pl > app.svg
  gotach convert app.*.tach -o all.tach
  gotach convert app.tach -o app.bin && python3.15 -m profiling.sampling replay app.bin`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error { return convert(e, args, out, to, o) },
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write to `OUT`")
	f.StringVar(&to, "to", "", "`FORMAT` to write (default: as OUT's extension says)")
	f.BoolVar(&o.Uncompressed, "uncompressed", false, "tach, cpython315, nytprof: no compression")
	f.BoolVar(&o.Exact, "exact", false, "cpython315: each sample as recorded; readers that count samples then see too little of what waits")
	f.BoolVar(&o.NoSource, "no-source", false, "nytprof: leave out the texts of source files")
	f.BoolVar(&o.Goroutines, "goroutines", false, "collapsed: begin each stack with its goroutine; spx: one report a goroutine")
	f.BoolVar(&o.Microseconds, "microseconds", false, "spx: write times in µs with decimals, as the format's document has them")
	f.BoolVar(&o.CPU, "cpu", false, "collapsed: weigh by CPU time, not wall time")
	completeFormats(cmd, "to", (*formats.Format).CanWrite)
	fromFlags(cmd, &o)
	return cmd
}

func convert(e *env, in []string, out, to string, o formats.Options) error {
	if out == "" {
		return usagef("convert: say where to with -o OUT")
	}
	target, err := formats.TargetFormat(out, to)
	switch {
	case err != nil && to == "" && out == "-":
		return usagef("convert: say which format with --to FORMAT; gotach formats lists them")
	case err != nil && to == "":
		return usagef("convert: %w; say which with --to FORMAT", err)
	case err != nil:
		return usagef("convert: --to: %w", err)
	case out == "-" && target.Directory:
		return usagef("convert: %s is a format of several files: give -o a directory", target.Name)
	}
	var warning error
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
