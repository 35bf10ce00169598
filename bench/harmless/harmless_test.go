//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

// TestPeerSuites checks that each test of a suite has the same verdict with and without the profiler.
func TestPeerSuites(t *testing.T) {
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			s.read(t)
			if s.night {
				testenv.Night(t, "a few suites are enough")
			}
			for _, p := range prepare(t, s) {
				t.Run(p.path, func(t *testing.T) {
					p.build(t)
					for _, harm := range compare(t, s, p, testenv.Times(1, 3)) {
						t.Error(harm)
					}
				})
			}
		})
	}
}

// harms describes the harm that a run with the profiler shows. text is what it printed, profile what is said of its file.
func harms(plain, profiled run, text, profile string) (harm []string) {
	found := func(format string, args ...any) { harm = append(harm, fmt.Sprintf(format, args...)) }
	if len(plain.verdict) == 0 {
		return []string{"no test ran\n" + tail(plain.log)}
	}
	if d := cmp.Diff(plain.outcome, profiled.outcome); d != "" {
		found("without the profiler, and with it:\n%s\nwith it:\n%s\nwithout it:\n%s", d, tail(profiled.log), tail(plain.log))
	}
	if plain.killed || profiled.killed {
		found("killed after the timeout; with the profiler: %v, without: %v", profiled.killed, plain.killed)
	}
	if strings.Contains(text, "gotach: ") {
		found("the profiler complains\n%s", tail(profiled.log))
	}
	if !strings.HasPrefix(profile, "profile whole") {
		found("%s", profile)
	}
	return harm
}

// compare runs one package's tests with and without the profiler, in turns, so that other load on
// the machine affects both. It returns the differences.
func compare(t *testing.T, s suite, p pkg, rounds int) (harm []string) {
	t.Helper()
	for round := range rounds {
		out := t.TempDir()
		plain := start(t, s, p, p.plain, filepath.Join(out, "plain.log"))
		profiled := start(t, s, p, p.profiled, filepath.Join(out, "profiled.log"),
			"PROFILE_OUT="+filepath.Join(out, "%p.tach"), "PROFILE_SOURCE=native", "PROFILE_RATE=1000")
		text := testenv.Must(os.ReadFile(profiled.log))
		file := profile(t, filepath.Join(out, fmt.Sprint(profiled.pid, ".tach")), "native")
		for _, h := range harms(plain, profiled, string(text), file) {
			harm = append(harm, fmt.Sprintf("round %d: %s", round, h))
		}
		t.Logf("round %d: %d verdicts, %s, %.1f s and %.1f s with the profiler: %s", round, len(plain.verdict), plain.end, plain.took.Seconds(), profiled.took.Seconds(), file)
	}
	return harm
}
