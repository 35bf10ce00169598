package main

import (
	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newDump(e *env) *cobra.Command {
	var o formats.Options
	cmd := &cobra.Command{
		Use:   "dump FILE",
		Short: "Print all that is in a file as JSON lines",
		Long: `Print all that is in a file as JSON lines: of a Tachyon file each sample, of other
formats what they are made of. If the file turns out to be broken, what comes
before that is printed.`,
		Example: `  gotach dump app.tach | head -1
  gotach dump app.tach | jq -r '.frames[0][1]' | sort | uniq -c`,
		Args: oneFile,
		RunE: func(_ *cobra.Command, args []string) error { return dump(e, args[0], o) },
	}
	fromFlag(cmd, &o)
	return cmd
}

func dump(e *env, path string, o formats.Options) error {
	if !isTerminal(e.stdout) { // there the lines themselves show that it works
		bar := e.progress("dump")
		defer bar.done()
		o.Progress = bar.update
	}
	in, err := e.open(path, o)
	if err != nil {
		return err
	}
	defer in.Close()
	return named(path, in.Dump(e.stdout))
}
