package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An env has the streams, the context and the progress bar of a command.
type env struct {
	ctx            context.Context // ends when the user interrupts
	stdin          io.Reader
	stdout, stderr *output

	started bool   // the arguments were correct and the command began
	help    string // prints the help of the command
	bar     *progress
	grace   atomic.Int64 // ns in which the command ends after an interrupt, if that is longer than grace
}

// A usageError is an error in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exit reports an error and returns the exit code.
func (e *env) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if code := errExit(0); errors.As(err, &code) {
		return int(code)
	}
	printf(e.stderr, "gotach: %v\n", err)
	if !e.started || errors.As(err, &usageError{}) {
		printf(e.stderr, "Run '%s' for usage.\n", e.help)
		return exitUsage
	}
	if errors.As(err, &errAbove{}) {
		return exitAbove
	}
	return exitError
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "gotach",
		Short: "Read, report and convert wall-clock profiles of Go programs",
		Long: `gotach reads, reports and converts wall-clock profiles of Go programs. A profile has samples of all
goroutines, running or waiting, by default up to 1,000 times a second.

A program records a profile with package github.com/gotach/profiler:

    defer profiler.Start(profiler.Output("app.tach")).Stop()

FILE can be - for standard input. Most commands have flags that select samples: see "gotach help select".

Findings in real programs: ` + docs + `cases.md`,
		Example: `  gotach demo                           # profile a built-in workload
  gotach app.tach                       # show where the time went, as report does
  gotach why app.tach                   # say what is wrong
  gotach view app.tach                  # look at it in a browser
  gotach convert app.tach -o app.pb.gz  # for go tool pprof`,
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
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"See:", []*cobra.Command{newReport(e), newView(e), newHTML(e), newTop(e), newStacks(e)}},
		{"Explain:", []*cobra.Command{newWhy(e), newLocks(e), newWaits(e), newRequests(e), newLeaks(e), newDiff(e)}},
		{"Record:", []*cobra.Command{newRecord(e), newDemo(e), newTest(e), newPush(e)}},
		{"Files:", []*cobra.Command{newInfo(e), newConvert(e), newFormats(e), newVerify(e), newRecover(e), newDump(e)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(newCompletion(e))
	setHelp(root)
	root.SetFlagErrorFunc(meant)
	return root
}

// kinds are what values of flags are, by their types.
var kinds = map[string]string{"int": "a whole number", "float64": "a number", "duration": "a time such as 10s or 2m", "bool": "true or false"}

// meant returns an error in a flag: what its value must be, or the names of flags that it was
// perhaps meant to be.
func meant(cmd *cobra.Command, err error) error {
	wrong := (*pflag.InvalidValueError)(nil)
	if errors.As(err, &wrong) {
		f := wrong.GetFlag()
		if kind := kinds[f.Value.Type()]; kind != "" {
			return fmt.Errorf("%s: --%s %q: it must be %s", cmd.Name(), f.Name, wrong.GetValue(), kind)
		}
	}
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return err
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if names := flags.SuggestionsFor(unknown.GetSpecifiedName()); len(names) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(names, " or --"))
	}
	return err
}

// version returns gotach's version and the Go version of the build.
func version() string {
	v := "(devel)"
	bi, ok := debug.ReadBuildInfo()
	if ok && bi.Main.Version != "" {
		v = bi.Main.Version
	}
	return fmt.Sprintf("%s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// oneFile checks the arguments of a command with one file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: %s, want one file; usage: gotach %s", cmd.Name(), plural(int64(len(args)), "argument"), cmd.Use)
	}
	return nil
}

// someFiles checks the arguments of a command with one or more files.
func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s: no file; usage: gotach %s", cmd.Name(), cmd.Use)
	}
	return nil
}
