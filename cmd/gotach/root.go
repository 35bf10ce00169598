package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

// env is what a command has of the world.
type env struct {
	ctx            context.Context // ends when the user interrupts
	stdin          io.Reader
	stdout, stderr io.Writer

	started bool // the arguments were right and the command began
}

// A usageError is a mistake in how gotach was called.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exit reports an error and returns the exit code.
func (e *env) exit(err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(e.stderr, "gotach: %s\n", strings.TrimRight(err.Error(), "\n"))
	if !e.started || errors.As(err, &usageError{}) {
		fmt.Fprintln(e.stderr, "Run 'gotach help' for usage.")
		return exitUsage
	}
	return exitError
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "gotach",
		Short: "Read, report and convert wall-clock profiles of Go programs",
		Long: `gotach reads, reports and converts wall-clock profiles of Go programs: what every
goroutine did, running or waiting, a thousand times a second.

A program records one with package github.com/gotach/profiler:

	defer profiler.Start(profiler.Output("app.tach")).Stop()

Where a FILE is asked for, - is standard input.`,
		Example: `  gotach demo                              profile a built-in workload
  gotach report app.tach                   where the time went
  gotach convert app.tach -o app.pb.gz     for go tool pprof`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			e.started = true
		},
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetVersionTemplate("gotach {{.Version}}\n")
	root.AddCommand(newDemo(e), newInfo(e), newDump(e), newReport(e), newConvert(e), newFormats(e), newVerify(e), newRecover(e), newCompletion(e))
	return root
}

// version says which gotach this is and what it was built with.
func version() string {
	v := "(devel)"
	bi, ok := debug.ReadBuildInfo()
	if ok && bi.Main.Version != "" {
		v = bi.Main.Version
	}
	return fmt.Sprintf("%s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// oneFile is for commands that take one file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: give it one file, not %d: gotach %s", cmd.Name(), len(args), cmd.Use)
	}
	return nil
}

// someFiles is for commands that take one file or more.
func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s: give it a file: gotach %s", cmd.Name(), cmd.Use)
	}
	return nil
}

// openAll opens profiles and makes one of them.
func (e *env) openAll(paths []string, o formats.Options) (*formats.Input, error) {
	var inputs []*formats.Input
	var seen []os.FileInfo
	for _, path := range paths {
		if fi, err := os.Stat(path); err == nil && path != "-" {
			if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(fi, other) }) {
				e.warn(fmt.Errorf("%s: named twice, read once", path))
				continue
			}
			seen = append(seen, fi)
		}
		in, err := e.open(path, o)
		if err != nil {
			for _, in := range inputs {
				in.Close()
			}
			return nil, err
		}
		inputs = append(inputs, in)
	}
	o.Context = e.ctx
	return formats.Join(inputs, o)
}

// open opens a profile, or standard input if the path is "-".
func (e *env) open(path string, o formats.Options) (*formats.Input, error) {
	if o.From != "" {
		if _, err := formats.ByName(o.From); err != nil {
			return nil, usagef("--from: %w", err)
		}
	}
	if o.Warn == nil {
		o.Warn = func(err error) { e.warn(named(path, err)) }
	}
	o.Context = e.ctx
	var in *formats.Input
	var err error
	if path == "-" {
		in, err = formats.OpenReader(e.stdin, stdinName, o)
	} else {
		in, err = formats.Open(path, o)
	}
	if errors.Is(err, formats.ErrUnknownFormat) {
		err = fmt.Errorf("%w; gotach formats lists them, --from says which it is", err)
	}
	if err != nil {
		return nil, named(path, err)
	}
	if in.Unfinished() {
		e.warn(fmt.Errorf("%s: unfinished, so this is what is there by now; gotach recover finishes the file of a program that was killed", path))
	}
	return in, nil
}

const stdinName = "standard input"

// named puts a file's name before an error that does not begin with it.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	if path == "-" {
		path = stdinName
	}
	if errors.As(err, &usageError{}) || strings.HasPrefix(err.Error(), path+": ") {
		return err
	}
	if pe, ok := err.(*os.PathError); ok {
		if pe.Path == path {
			return fmt.Errorf("%s: %w", path, pe.Err)
		}
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// fromFlag adds --from, for files whose content does not say what they are.
func fromFlag(cmd *cobra.Command, o *formats.Options) {
	cmd.Flags().StringVar(&o.From, "from", "", "format of `FILE`, by name (default: found out)")
	cmd.Flags().BoolVar(&o.Lax, "lax", false, "dcpi: read files without version and tstart, too")
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
