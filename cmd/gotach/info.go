package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newInfo(e *env) *cobra.Command {
	var o formats.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info FILE...",
		Short: "Print facts about a file: program, build, sampling",
		Long: `Print facts about a file: the program, its build, how it was sampled, what used CPU time, and how much
is in the file.

The samples' CPU time is that of the program's goroutines, of the Go runtime's goroutines (such as the
garbage collector's), and of no goroutine. The process's CPU time is what the kernel counted. "no core" is the time
in which goroutines ran but the kernel gave their threads no core; "throttled" is how long
a container's CPU quota was the reason. "not seen" is the time of goroutines without a sample.`,
		Example: `  gotach info app.tach
  gotach info app.*.tach
  gotach info app.tach --json | jq .samples`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			several := false
			return e.readEach("info", args, o, func(in *formats.Input) error {
				if several && !asJSON {
					printf(e.stdout, "\n")
				}
				several = true
				return e.info(in, len(args) > 1, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each file")
	fromFlags(cmd, &o)
	return cmd
}

// info prints facts about a file. If there are several files, it prints the file's name too.
func (e *env) info(in *formats.Input, several, asJSON bool) error {
	list, err := in.Info()
	if err != nil {
		return err
	}
	if several {
		list = append([]formats.Field{{Key: "file", Label: "file", Value: in.Name, Text: in.Name}}, list...)
	}
	e.barDone()
	if asJSON {
		return e.printJSON(object(list), "  ")
	}
	wide := 0
	for _, f := range list {
		if f.Label != "" && f.Text != "" {
			wide = max(wide, len(f.Label))
		}
	}
	paint := newPaint(e.stdout)
	var b bytes.Buffer
	for _, f := range list {
		if f.Label != "" && f.Text != "" {
			lines := []string{f.Text}
			if room := width(e.stdout) - wide - 2; utf8.RuneCountInString(f.Text) > room {
				lines = wrap(f.Text, room, 0)
			}
			printf(&b, "%s  %s\n", paint.dim(fmt.Sprintf("%-*s", wide, f.Label)), lines[0])
			for _, l := range lines[1:] {
				printf(&b, "%*s  %s\n", wide, "", l)
			}
		}
	}
	return e.print(b.Bytes())
}

// object is a list of facts that is encoded as one JSON object in this order.
type object []formats.Field

// MarshalJSON returns the object.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
