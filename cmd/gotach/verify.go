package main

import (
	"fmt"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

func newVerify(e *env) *cobra.Command {
	var o formats.Options
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check a whole file: structure, every sample, checksum",
		Long: `Check all of a file that can be checked: header, tables, every sample, and the
checksum if it has one. Prints OK and what is in it, or the first error and where
it is.`,
		Example: `  gotach verify app.tach`,
		Args:    someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, path := range args {
				if err := verify(e, path, o); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fromFlag(cmd, &o)
	return cmd
}

func verify(e *env, path string, o formats.Options) error {
	bar := e.progress("verify")
	defer bar.done()
	o.Progress = bar.update
	in, err := e.open(path, o)
	if err != nil {
		return err
	}
	defer in.Close()
	found, err := in.Verify()
	if err != nil {
		return named(path, err)
	}
	bar.done()
	_, err = fmt.Fprintf(e.stdout, "%s: %s %s\n", in.Name, newPaint(e.stdout).good("OK"), found)
	return err
}
