package gotest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A commandLine is the arguments of go test, as far as they matter here.
type commandLine struct {
	args     []string // all, in order, without -overlay and -modfile, for which Run gives its own
	packages []string // the patterns; none: the current directory
	build    []string // the flags that decide which packages and files there are, for go list

	dir     string // -C
	overlay string // -overlay
	modfile string // -modfile
	mod     string // -mod
	counted bool   // -count is there
}

// boolean are go test's flags that need no value.
var boolean = strings.Fields(`a n v x i c race msan asan cover work json trimpath linkshared modcacherw
	benchmem failfast fullpath short artifacts buildvcs help h
	test.v test.benchmem test.failfast test.fullpath test.short test.paniconexit0 test.artifacts`)

// valued are go test's flags that need a value.
var valued = strings.Fields(`C p covermode coverpkg asmflags buildmode compiler gccgoflags gcflags installsuffix
	ldflags mod modfile overlay pgo pkgdir tags toolexec exec o vet
	bench benchtime blockprofile blockprofilerate count coverprofile cpu cpuprofile fuzz fuzzcachedir fuzzminimizetime fuzztime
	list memprofile memprofilerate mutexprofile mutexprofilefraction outputdir parallel run shuffle skip testlogfile timeout trace`)

// listed are the flags that go list gets too: commandLine.build.
var listed = strings.Fields("tags race msan asan compiler installsuffix buildmode")

// parse reads the arguments of go test as the go command does: flags, then packages, then flags.
// After the first flag that go test does not know, and after -args, all else is the test binaries'.
func parse(args []string) (*commandLine, error) {
	c := &commandLine{}
	packagesOver := false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case arg == "-args" || arg == "--args":
			c.args = append(c.args, args[i:]...)
			return c, c.check()
		case !strings.HasPrefix(arg, "-") || arg == "-":
			if !packagesOver {
				c.packages = append(c.packages, arg)
			}
			c.args = append(c.args, arg)
			continue
		}
		packagesOver = packagesOver || len(c.packages) > 0
		words := args[i : i+1]
		plain := strings.TrimPrefix(name, "test.")
		switch {
		case slices.Contains(boolean, name):
		case slices.Contains(valued, name) || name != plain && slices.Contains(valued, plain):
			if !hasValue {
				if i+1 == len(args) {
					return nil, fmt.Errorf("%s needs a value", arg)
				}
				i++
				value, words = args[i], args[i-1:i+1]
			}
		default: // a flag of the test binary
			c.args = append(c.args, args[i:]...)
			return c, c.check()
		}
		switch plain {
		case "c":
			return nil, errors.New("-c runs no tests, so there is nothing to profile")
		case "overlay":
			c.overlay = value
			words = nil
		case "modfile":
			c.modfile = value
			words = nil
		case "mod":
			c.mod = value
			words = nil
		case "C":
			if i > 1 || len(c.args) > 0 {
				return nil, errors.New("-C must be the first flag, as in go test")
			}
			c.dir = value
		case "count":
			c.counted = true
		}
		if slices.Contains(listed, name) {
			c.build = append(c.build, words...)
		}
		c.args = append(c.args, words...)
	}
	return c, c.check()
}

// check refuses files in place of packages.
func (c *commandLine) check() error {
	for _, p := range c.packages {
		if strings.HasSuffix(p, ".go") {
			return fmt.Errorf("%s: give packages, not files", p)
		}
	}
	return nil
}
