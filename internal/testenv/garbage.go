package testenv

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// usual is how often garbage is collected in other programs.
var usual = debug.SetGCPercent(100)

// Tests make much garbage and keep little. At small heaps the collector needs a third of their
// time, so it runs less often. $GOGC counts if it is set, and benchmarks cost what programs do.
func init() {
	benchmark := slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.bench") })
	if CollectAsUsual(); testing.Testing() && os.Getenv("GOGC") == "" && !benchmark {
		debug.SetGCPercent(400)
	}
}

// CollectAsUsual is for tests of what the collector does beside the profiler, and for measurements.
func CollectAsUsual() { debug.SetGCPercent(usual) }
