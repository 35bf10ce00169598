//go:build linux && (amd64 || arm64) && measure

package harmless

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/measure"
)

// A session adds few threads. At any time the runtime may start one more for the program itself. The bounds are those of
// docs/harm.md.
func TestMeasureThreads(t *testing.T) {
	bin, out := buildTraces(t), filepath.Join(t.TempDir(), "x.tach")
	var b strings.Builder
	b.WriteString("\n| source | threads that the runtime starts for a session |\n|---|---|\n")
	for _, s := range []struct {
		source string
		most   float64
	}{{"native", 4}, {"portable", 2}} {
		measure.AtMost(t, s.source+": threads of a session", "threads", s.most, func() float64 {
			got := traced(t, bin, []string{"PROFILE_SOURCE=" + s.source}, "start", out)
			return float64(got.With - got.Without)
		})
		fmt.Fprintf(&b, "| %s | %v at most |\n", s.source, s.most)
	}
	b.WriteByte('\n')
	testenv.Marked(t, harmPage, "threads", b.String(), *update)
}
