//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// refuse returns why the source cannot run in this program, as far as that is known
// before anything of the runtime is read.
func refuse() error {
	if raceBuild && instrumented() {
		return errors.New("with -race the coverage counters of this package call the race detector, which the signal handler cannot do")
	}
	for _, name := range []string{"efence", "harddecommit"} {
		// With either of them the runtime unmaps memory that it has no use for now. A
		// stack that is read while its goroutine ends would be a fault.
		if v := goDebug(name, startEnvironment()); v > 0 || name == "efence" && v != 0 {
			return fmt.Errorf("with GODEBUG=%s=%d the runtime unmaps stacks", name, v)
		}
	}
	return nil
}

// goDebug returns a setting as the runtime reads it once, at the program's start: the
// linker's defaults, then the environment's. The latest number counts.
func goDebug(name string, environment []string) (value int32) {
	settings := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range info.Settings {
			if kv.Key == "DefaultGODEBUG" {
				settings = kv.Value
			}
		}
	}
	for _, v := range environment {
		// The first of several is the one that the runtime takes.
		if s, ok := strings.CutPrefix(v, "GODEBUG="); ok {
			settings += "," + s
			break
		}
	}
	for s := range strings.SplitSeq(settings, ",") {
		if k, v, ok := strings.Cut(s, "="); ok && k == name {
			if n, err := strconv.ParseInt(v, 10, 32); err == nil {
				value = int32(n)
			}
		}
	}
	return value
}

// startEnvironment returns the environment that the program was started with, which it
// may have changed since.
func startEnvironment() []string {
	b, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return os.Environ()
	}
	return strings.Split(string(b), "\x00")
}

// instrumented reports whether this package has coverage counters that are counted by
// sync/atomic: with -race these are calls, of which a function that returns a constant
// has none otherwise.
func instrumented() bool {
	pc := entry(constant)
	f := runtime.FuncForPC(pc)
	for ; runtime.FuncForPC(pc) == f; pc += pcQuantum {
		if g := runtime.FuncForPC(callTarget(pc)); g != nil && strings.HasPrefix(g.Name(), "sync/atomic.") {
			return true
		}
	}
	return false
}

//go:noinline
//go:nosplit
//go:norace
func constant(_, _, _, _ uintptr) uintptr { return 1 }
