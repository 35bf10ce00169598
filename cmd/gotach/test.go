package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/gotest"
	"github.com/gotach/profiler/internal/formats"
	"github.com/spf13/cobra"
)

// testFlags are the flags of test that are not go test's.
type testFlags struct {
	out, diff, failAbove string
}

// defaultTestOut is the profile that gotach test writes.
const defaultTestOut = "test.tach"

func newTest(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "test [-o FILE] [--diff OLD] [go test flags] [PACKAGES]",
		Short: "Run go test and profile all packages into one file",
		Long: `Run go test and profile all its packages into one file. The output and the exit code are go test's;
the exit code is not 0 if the profile of tests cannot be written. The packages and
their module need no change. -count=1 is added unless -count is given, so no test comes from the cache. At the end a
line on standard error says where the profile is.

Goroutines have the labels "package" and "test", and so have those that they start. The label "test"
is the test, benchmark, fuzz target or example that a goroutine runs; subtests count as their top-level
test. A test that ended between two samples is not in the profile, and not counted.

Ctrl-C ends the tests; the profile has what they did until then.

The profile begins before TestMain and ends with the tests. Its end is missing for a package with a
TestMain of its own and for tests that panic or call os.Exit: the last 100 ms on a machine that is not busy, waits of
the last second while nothing runs, and on Windows nearly everything. Programs that tests start are
not in it. PROFILE_RATE, PROFILE_SOURCE and PROFILE_BUDGET (here 10 by default) apply, PROFILE_OUT
does not.

  -o FILE, --output FILE  write the profile to FILE (default ` + defaultTestOut + `)
  --diff OLD              also print what gotach diff OLD FILE prints
  --fail-above PERCENT    exit with 3 if the tests pass and gotach diff would

All other flags are go test's, and all after -args is for the tests. gotach needs the profiler's
source, where gotach was built or in the module cache. A module with a vendor directory is tested with
-mod=mod, so its modules must be in the module cache. Packages of the standard library and of the
module cache are tested without a profile.`,
		Example: `  gotach test ./...
  gotach report test.tach --by label:test
  gotach test -race -run TestSearch ./search
  gotach test -o new.tach --diff old.tach --fail-above 5% ./...`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			fl, rest, help, err := parseTest(args)
			switch {
			case err != nil:
				return err
			case help:
				return cmd.Help()
			}
			return test(e, fl, rest)
		},
	}
}

// parseTest takes gotach's flags out of the arguments of go test. help says that the user asks for
// it.
func parseTest(args []string) (fl testFlags, rest []string, help bool, err error) {
	fl.out = defaultTestOut
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		var into *string
		switch name {
		case "-args", "--args":
			return fl, append(rest, args[i:]...), false, fl.check()
		case "-h", "-help", "--help":
			return fl, nil, true, nil
		case "-o", "--o", "-output", "--output":
			into = &fl.out
		case "-diff", "--diff":
			into = &fl.diff
		case "-fail-above", "--fail-above":
			into = &fl.failAbove
		default:
			rest = append(rest, args[i])
			continue
		}
		if !given {
			if i++; i == len(args) {
				return fl, nil, false, usagef("test: %s needs a value", name)
			}
			value = args[i]
		}
		*into = value
	}
	return fl, rest, false, fl.check()
}

func (fl *testFlags) check() error {
	if fl.out == "" || fl.out == "-" {
		return usagef("test: the profile must be a file; set it with -o FILE")
	}
	if fl.failAbove != "" {
		if fl.diff == "" {
			return usagef("test: --fail-above needs --diff OLD")
		}
		if _, err := parsePercent(fl.failAbove); err != nil {
			return usagef("test: --fail-above: %w", err)
		}
	}
	if fl.diff == "" {
		return nil
	}
	old, err := os.Stat(fl.diff)
	if err != nil {
		return usagef("test: --diff: %w", err)
	}
	if out, err := os.Stat(fl.out); err == nil && os.SameFile(old, out) {
		return usagef("test: --diff: %s is the file that is written; set another one with -o FILE", fl.diff)
	}
	return nil
}

// errExit is the exit code of a command that this one has run, such as go test. It has said why.
type errExit int

// Error is never printed.
func (code errExit) Error() string { return fmt.Sprintf("exit status %d", int(code)) }

// testGrace is the time that interrupted tests have to end, with the making of their profile.
const testGrace = 30 * time.Second

func test(e *env, fl testFlags, args []string) error {
	if err := formats.Creatable(fl.out); err != nil {
		return err
	}
	e.grace.Store(int64(testGrace))
	res, err := gotest.Run(e.ctx, gotest.Options{Args: args, Output: fl.out, Stdin: e.stdin, Stdout: e.stdout.w, Stderr: e.stderr.w})
	if errors.As(err, &gotest.UsageError{}) {
		return usagef("test: %w", err)
	}
	if res == nil {
		return fmt.Errorf("test: %w", err)
	}
	return tested(e, fl, res, err)
}

// tested prints what go test has left, and returns the exit code.
func tested(e *env, fl testFlags, res *gotest.Result, err error) error {
	for _, text := range res.Without {
		printf(e.stderr, "gotach: not in the profile: %s\n", text)
	}
	code := error(nil)
	if res.Code != 0 {
		code = errExit(res.Code)
	}
	if err != nil {
		printf(e.stderr, "gotach: test: there is no profile: %v\n", err)
		if code == nil && (fl.diff != "" || !errors.Is(err, gotest.ErrNone)) {
			code = errExit(exitError)
		}
		return code
	}
	if res.Packages == 0 {
		return code
	}
	printf(e.stderr, "gotach: %s has %s of %s; next: gotach report %[4]s --by label:test\n",
		fl.out, plural(int64(res.Tests), "test"), plural(int64(res.Packages), "package"), quoted(fl.out))
	if fl.diff == "" {
		return code
	}
	err = printDiff(e, [2][]string{{fl.diff}, {fl.out}}, formats.Options{}, diffFlags{by: "function", per: "wall", failAbove: fl.failAbove, top: defaultTop})
	if code != nil {
		return code
	}
	return err
}
