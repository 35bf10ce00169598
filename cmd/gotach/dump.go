package main

import (
	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newDump(e *env) *cobra.Command {
	var o formats.Options
	cmd := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print all that is in a file as JSON lines",
		Long: `Print all that is in a file as JSON lines. Of a Tachyon file these are its samples,
of other formats what they are made of. If the file turns out to be broken, what
comes before that place is printed.

Several files are one profile; see gotach report --help.`,
		Example: `  gotach dump app.tach | head -1
  gotach dump app.tach | jq -r '.frames[0][1]' | sort | uniq -c
  gotach dump app.*.tach | wc -l`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			return e.read("dump", args, o, func(in *formats.Input) error {
				if isTerminal(e.stdout) { // there the lines themselves show that it works
					e.barDone()
				}
				return in.Dump(e.stdout)
			})
		},
	}
	fromFlags(cmd, &o)
	return cmd
}
