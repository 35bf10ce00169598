//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
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
		if v := goruntime.GoDebug(name, goruntime.StartEnvironment()); v > 0 || name == "efence" && v != 0 {
			return fmt.Errorf("with GODEBUG=%s=%d the runtime unmaps stacks", name, v)
		}
	}
	return nil
}

// instrumented reports whether the handler's code has coverage counters that use sync/atomic. With
// -race these are calls. It looks for such a call in functions that otherwise have none, one of
// each package.
func instrumented() bool {
	for _, f := range []func() uintptr{constant, mem.Constant, goruntime.Constant, cost.Constant} {
		pc := entry(f)
		of := runtime.FuncForPC(pc)
		for ; runtime.FuncForPC(pc) == of; pc += goruntime.PCQuantum {
			if g := runtime.FuncForPC(goruntime.CallAt(pc)); g != nil && strings.HasPrefix(g.Name(), "sync/atomic.") {
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
