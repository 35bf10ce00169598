//go:build measure && !race && linux && (amd64 || arm64)

package native

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/testenv"
)

// shares sums up weights by function, flat and cumulative, of the stacks that have the function named of.
type shares struct {
	of        string
	flat, cum map[string]float64
	all       float64
}

func newShares(of string) *shares { return &shares{of, map[string]float64{}, map[string]float64{}, 0} }

func (s *shares) add(stack []string, weight float64) {
	if !slices.ContainsFunc(stack, func(n string) bool { return strings.HasSuffix(n, s.of) }) {
		return
	}
	if stack[0] == "runtime.asyncPreempt" {
		// If a thread gets a core and has both the runtime's signal and the profiler's pending,
		// this function is on the stack, but has not begun.
		stack = stack[1:]
	}
	seen := map[string]bool{}
	for i, name := range stack {
		if at := strings.IndexByte(name, '['); at >= 0 {
			name = name[:at] + "[...]" + name[strings.LastIndexByte(name, ']')+1:]
		}
		if i == 0 {
			s.flat[name] += weight
		}
		if !seen[name] {
			s.cum[name] += weight
		}
		seen[name] = true
	}
	s.all += weight
}

// apart returns by how many points the shares of functions in s and other differ at most, among those that have at
// least a share of least in one of them.
func (s *shares) apart(other *shares, least float64) (points float64) {
	compare := func(a, b map[string]float64) {
		for name := range b {
			if g, w := a[name]/s.all, b[name]/other.all; max(g, w) >= least && !goruntime.Hidden(name) && name != "[scheduler]" {
				points = max(points, 100*math.Abs(g-w))
			}
		}
	}
	compare(s.flat, other.flat)
	compare(s.cum, other.cum)
	return points
}

// pprofShares counts the first values of a profile in pprof's format, without the drain's.
func pprofShares(t *testing.T, file []byte, of string) *shares {
	t.Helper()
	p := testenv.Must(profile.ParseData(file))
	s := newShares(of)
	for _, sample := range p.Sample {
		var stack []string // innermost first
		for _, l := range sample.Location {
			for _, line := range l.Line {
				stack = append(stack, line.Function.Name)
			}
		}
		if slices.Contains(stack, "runtime.schedule") {
			stack = []string{"[scheduler]"} // the native source does not show its functions
		}
		if !slices.Contains(stack, "github.com/gotach/profiler/sampler/internal/native.(*Source).loop") {
			s.add(stack, float64(sample.Value[0]))
		}
	}
	return s
}
