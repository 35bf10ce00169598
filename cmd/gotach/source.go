package main

import (
	"strings"

	"github.com/gotach/profiler/internal/source"
	"github.com/spf13/cobra"
)

// sourceFlags say which source files are read.
type sourceFlags struct {
	dirs []string
	none bool
}

// sourceHelp says in the help of commands that they read source files.
const sourceHelp = `"gotach help source" says which source files are read.`

// add adds --source to a command.
func (fl *sourceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&fl.dirs, "source", nil, "read only source files below `DIR`; may be repeated")
	if err := cmd.MarkFlagDirname("source"); err != nil {
		panic(err) // the flag does not exist: a bug in this program
	}
}

// reader returns what reads the source files, nil if none are wanted.
func (fl *sourceFlags) reader(cmd string) (*source.Reader, error) {
	if fl.none {
		return nil, nil
	}
	if len(fl.dirs) == 0 {
		return source.Usual(), nil
	}
	r, err := source.Below(fl.dirs)
	if err != nil {
		return nil, usagef("%s: --source: %w", cmd, err)
	}
	return r, nil
}

// shown says which source files are in an output that may be sent to others.
func (e *env) shown(r *source.Reader, out string) {
	if r == nil {
		return
	}
	if n, dirs := r.Shown(); n > 0 {
		printf(e.stderr, "gotach: %s has source of %s below %s; --no-source leaves it out\n", out, plural(int64(n), "file"), strings.Join(dirs, ", "))
	}
}
