package main

import (
	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

// newVerify returns the command verify.
func newVerify(e *env) *cobra.Command {
	var o formats.Options
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check a whole file: structure, every sample, checksum",
		Long: `Check a whole file: header, tables, every sample and, if there is one, the checksum. verify prints OK
and a summary of the file, or the first error and its offset.`,
		Example: `  gotach verify app.tach
  gotach verify app.*.tach`,
		Args: someFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			return e.readEach("verify", args, o, e.verify)
		},
	}
	fromFlags(cmd, &o)
	return cmd
}

// verify checks one file and prints a line.
func (e *env) verify(in *formats.Input) error {
	found, err := in.Verify()
	if err != nil {
		return err
	}
	e.barDone()
	_, err = printf(e.stdout, "%s: %s %s\n", in.Name, newPaint(e.stdout).good("OK"), found)
	return err
}
