package main

import (
	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newDump(e *env) *cobra.Command {
	var o formats.Options
	cmd := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print the content of a file as JSON lines",
		Long: `Print the content of a file as JSON lines. A line of a Tachyon file is a sample; a line of another
format is an element of that format. If the file is damaged, dump prints what comes before the damage,
then the error.

A file that gotach recorded begins with lines of metadata. Their first key, "gotach", says what the
line is: "file" (start and interval), "session" (program, sampling), "object" (what goroutines waited
for), "goroutine" (labels, creator, parent, first and last time) or "pcs" (innermost addresses).
All commands read these lines; "gotach convert" makes a file with the same content of them.

Several files are read as one profile; see "gotach report --help".`,
		Example: `  gotach dump app.tach | head
  gotach dump app.tach | jq -r 'select(.frames) | .frames[0][1]' | sort | uniq -c
  gotach dump app.tach | jq -c 'select(.gotach == "goroutine") | [.id, .created_by, .labels]'
  gotach dump app.tach >app.jsonl; gotach convert app.jsonl -o again.tach`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			return e.read("dump", args, o, func(in *formats.Input) error {
				if isTerminal(e.stdout) { // the lines on the terminal show the progress
					e.barDone()
				}
				return in.Dump(e.stdout.asJSON())
			})
		},
	}
	fromFlags(cmd, &o)
	return cmd
}
