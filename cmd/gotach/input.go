package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

// analyses are the commands that read the files that they can read, and warn of others.
var analyses = []string{"report", "html", "why", "leaks", "locks", "waits", "requests", "stacks"}

// read opens files as one profile, calls use with it and closes it. It shows the progress of
// use; commands call e.barDone before they print.
func (e *env) read(what string, paths []string, o formats.Options, use func(*formats.Input) error) error {
	if err := checkFrom(&o); err != nil {
		return err
	}
	e.bar = e.progress(what)
	defer e.barDone()
	o.Context, o.Stdin, o.Progress = e.ctx, e.stdin, e.bar.update
	if o.Warn == nil {
		o.Warn = e.warn
	}
	left := 0
	if slices.Contains(analyses, what) {
		o.Samples = what != "report"
		o.Damaged = func(err error) {
			left++
			o.Warn(fmt.Errorf("%w; the other files are read", err))
		}
	}
	in, err := openAll(paths, o)
	if i := slices.IndexFunc(paths, isProgram); i >= 0 && errors.Is(err, formats.ErrUnknownFormat) {
		err = fmt.Errorf("%s: it is a program and no profile; gotach record -o FILE.tach -- PROGRAM records one", paths[i])
	} else if errors.Is(err, formats.ErrUnknownFormat) {
		err = fmt.Errorf("%w; gotach formats lists the formats, --from FORMAT sets one", err)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	for _, name := range in.Unfinished() {
		printf(e.stderr, "gotach: %s: unfinished; all that it has until now is read. If its program was killed, gotach recover finishes it\n", name)
	}
	if err := instantOnly(in, what); err != nil {
		return err
	}
	if err := use(in); errors.As(err, &usageError{}) {
		return err
	} else if err != nil {
		return in.Named(err)
	}
	if in.HasSamples() {
		if err := e.selected(paths, &o); err != nil {
			e.barDone()
			return in.Named(err)
		}
	}
	if left > 0 {
		return fmt.Errorf("%d of %d files could not be read as a whole", left, len(paths))
	}
	return nil
}

// readEach reads files one after the other, each as a profile of its own. Those that a rotation has
// removed since it warns of.
func (e *env) readEach(what string, paths []string, o formats.Options, use func(*formats.Input) error) error {
	some := false
	if o.From == "" && isCore(paths[0]) {
		return e.read(what, paths, o, use)
	}
	for i, path := range paths {
		err := e.read(what, []string{path}, o, use)
		if gone := formats.Gone(path, paths, err); gone != nil && (some || i < len(paths)-1) {
			e.warn(gone)
			continue
		}
		if err != nil {
			return err
		}
		some = true
	}
	return nil
}

// barDone removes the progress bar.
func (e *env) barDone() {
	if e.bar != nil {
		e.bar.done()
	}
}

// named puts a file's name before an error, unless the error begins with it or is a usage
// error.
func named(name string, err error) error {
	if errors.As(err, &usageError{}) {
		return err
	}
	return formats.Named(name, err)
}

// printJSON prints a value as indented JSON.
func (e *env) printJSON(v any, indent string) error {
	enc := json.NewEncoder(e.stdout.asJSON())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// fromFlags adds the flags for input files: --from sets a format that the content does not
// show, --lax accepts incomplete files.
func fromFlags(cmd *cobra.Command, o *formats.Options) {
	cmd.Flags().StringVar(&o.From, "from", "", "read files of `FORMAT` (default: from the content)")
	cmd.Flags().BoolVar(&o.Lax, "lax", false, "dcpi: accept files without version and tstart")
	completeFormats(cmd, "from", (*formats.Format).CanRead)
}

// checkFrom checks --from.
func checkFrom(o *formats.Options) error {
	if o.From != "" {
		if _, err := formats.ByName(o.From); err != nil {
			return usagef("--from: %w", err)
		}
	}
	return nil
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
		panic(err) // the flag does not exist: a bug in this program
	}
}
