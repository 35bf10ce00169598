package main

import (
	"github.com/gotach/profiler/internal/recovery"
	"github.com/spf13/cobra"
)

func newRecover(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "recover FILE",
		Short: "Finish the file of a program that was killed",
		Long: `Finish the file of a program that was killed. Its samples are in FILE and in the journal beside it,
FILE.journal. recover leaves out what is damaged in the journal and says so. It deletes the journal
when the finished file can be read as a whole. It does not change a file that is finished or that a
program is still writing. If the disk is full, free some space and run recover again.

The other commands read an unfinished file without changing it.`,
		Example: `  gotach recover app.tach && gotach report app.tach`,
		Args:    oneFile,
		RunE:    func(_ *cobra.Command, args []string) error { return recoverFile(e, args[0]) },
	}
}

func recoverFile(e *env, path string) error {
	if path == "-" {
		return usagef("recover: - is not possible, because the file is changed in place; give the name of a file")
	}
	res, err := recovery.Finish(path)
	if err != nil {
		return named(path, err)
	}
	if res.Finished {
		_, err = printf(e.stdout, "%s: already finished, %d samples\n", path, res.Samples)
		return err
	}
	_, err = printf(e.stdout, "%s: %s %d samples, %d of them from the journal\n", path, newPaint(e.stdout).good("recovered"), res.Samples, res.Restored)
	if err == nil && res.Cut != "" {
		_, err = printf(e.stdout, "%s: left out, because it is damaged in the journal: %s\n", path, res.Cut)
	}
	return err
}
