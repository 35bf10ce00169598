package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

// read opens profiles as one, shows progress while use works on it, and closes it.
// Commands call e.barDone before they print.
func (e *env) read(what string, paths []string, o formats.Options, use func(*formats.Input) error) error {
	if o.From != "" {
		if _, err := formats.ByName(o.From); err != nil {
			return usagef("--from: %w", err)
		}
	}
	e.bar = e.progress(what)
	defer e.barDone()
	o.Context, o.Stdin, o.Progress = e.ctx, e.stdin, e.bar.update
	if o.Warn == nil {
		o.Warn = e.warn
	}
	in, err := formats.OpenAll(paths, o)
	if errors.Is(err, formats.ErrUnknownFormat) {
		err = fmt.Errorf("%w; gotach formats lists them, --from says which it is", err)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	for _, name := range in.Unfinished() {
		e.warn(fmt.Errorf("%s: unfinished: only what has been written so far is read; gotach recover finishes the file of a program that was killed", name))
	}
	return named(in.Name, use(in))
}

// barDone removes the progress bar.
func (e *env) barDone() {
	if e.bar != nil {
		e.bar.done()
	}
}

// named puts a file's name before an error that does not begin with it, unless the
// error is wrong usage.
func named(name string, err error) error {
	if errors.As(err, &usageError{}) {
		return err
	}
	return formats.Named(name, err)
}

// printJSON prints a value as JSON that people can read.
func (e *env) printJSON(v any, indent string) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// fromFlags adds --from and --lax, for files whose content does not tell their format.
func fromFlags(cmd *cobra.Command, o *formats.Options) {
	cmd.Flags().StringVar(&o.From, "from", "", "name of `FILE`'s format (default: its content tells)")
	cmd.Flags().BoolVar(&o.Lax, "lax", false, "dcpi: read files without version and tstart too")
	completeFormats(cmd, "from", (*formats.Format).CanRead)
}

func completeFormats(cmd *cobra.Command, flag string, which func(*formats.Format) bool) {
	var names []string
	for _, f := range formats.All() {
		if which(f) {
			names = append(names, f.Name+"\t"+f.Doc)
		}
	}
	completeWords(cmd, flag, names)
}

func completeWords(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist: a mistake in this program
	}
}
