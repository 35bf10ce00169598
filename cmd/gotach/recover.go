package main

import (
	"fmt"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/spf13/cobra"
)

func newRecover(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "recover FILE",
		Short: "Finish the file of a program that was killed",
		Long: `Finish a file whose program was killed before it could. All that was sampled is
in FILE and in the journal beside it, FILE.journal, which is deleted once the file
is whole. A file that is whole already is left alone, and so is one that a program
is still writing. If the disk fills meanwhile, make room and call it again.

The other commands read an unfinished file as it stands and change nothing.`,
		Example: `  gotach recover app.tach && gotach report app.tach`,
		Args:    oneFile,
		RunE:    func(_ *cobra.Command, args []string) error { return recoverFile(e, args[0]) },
	}
}

func recoverFile(e *env, path string) error {
	if path == "-" {
		return usagef("recover: give a file's name, not -: the file is finished in place")
	}
	res, err := recovery.Finish(path)
	if err != nil {
		return named(path, err)
	}
	if res.Finished {
		_, err = fmt.Fprintf(e.stdout, "%s: is finished already, %d samples\n", path, res.Samples)
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %s %d samples, %d of them from the journal\n", path, newPaint(e.stdout).good("recovered"), res.Samples, res.Restored)
	return err
}
