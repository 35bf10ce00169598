package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newInfo(e *env) *cobra.Command {
	var o formats.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info FILE...",
		Short: "Say what a file is: program, build, how it was sampled",
		Example: `  gotach info app.tach
  gotach info app.*.tach
  gotach info app.tach --json | jq .samples`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			for i, path := range args {
				if i > 0 && !asJSON {
					fmt.Fprintln(e.stdout)
				}
				if err := info(e, path, len(args) > 1, o, asJSON); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each file")
	fromFlag(cmd, &o)
	return cmd
}

// info says what a file is, and its name too if there are several.
func info(e *env, path string, several bool, o formats.Options, asJSON bool) error {
	in, err := e.open(path, o)
	if err != nil {
		return err
	}
	defer in.Close()
	list, err := in.Info()
	if err != nil {
		return named(path, err)
	}
	if several {
		list = append([]formats.Field{{Key: "file", Label: "file", Value: path, Text: path}}, list...)
	}
	if asJSON {
		return infoJSON(e.stdout, list)
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
			fmt.Fprintf(&b, "%s  %s\n", paint.dim(fmt.Sprintf("%-*s", wide, f.Label)), printable(f.Text))
		}
	}
	_, err = e.stdout.Write(b.Bytes())
	return err
}

// infoJSON writes the facts as an object, in their order.
func infoJSON(w io.Writer, list []formats.Field) error {
	b := []byte("{")
	for i, f := range list {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := json.Marshal(f.Key)
		if err != nil {
			return err
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append(b, '}'), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}
