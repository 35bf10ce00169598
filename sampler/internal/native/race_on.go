//go:build race && linux && (amd64 || arm64)

package native

import (
	"runtime"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/sampler/internal/cost"
)

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
