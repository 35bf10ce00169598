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

	"github.com/gotach/profiler/sampler/internal/mem"
)

// refuse returns an error if the source cannot run in this program for a reason that is known
// before any memory of the runtime is read.
func refuse() error {
	if raceBuild && instrumented() {
		return errors.New("with -race the coverage counters of this package call the race detector, and a signal handler must not call it")
	}
	for _, name := range []string{"efence", "harddecommit"} {
		// With either of them the runtime unmaps unused memory. Reading a stack while its
		// goroutine ends would fault.
		if v := goDebug(name, startEnvironment()); v > 0 || name == "efence" && v != 0 {
			return fmt.Errorf("with GODEBUG=%s=%d the runtime unmaps stacks", name, v)
		}
	}
	return nil
}

// goDebug returns a GODEBUG setting as the runtime reads it once at the program's start: the
// linker's defaults first, then the environment. The last number counts.
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
		// If GODEBUG is there several times, the runtime takes the first one.
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

// instrumented reports whether the handler's code has coverage counters that use sync/atomic. With
// -race these are calls. It looks for such a call in functions that otherwise have none, one of each package.
func instrumented() bool {
	for _, f := range []func() uintptr{constant, mem.Constant} {
		pc := entry(f)
		of := runtime.FuncForPC(pc)
		for ; runtime.FuncForPC(pc) == of; pc += pcQuantum {
			if g := runtime.FuncForPC(callTarget(pc)); g != nil && strings.HasPrefix(g.Name(), "sync/atomic.") {
				return true
			}
		}
	}
	return false
}

//go:noinline
//go:nosplit
//go:norace
func constant() uintptr { return 1 }
