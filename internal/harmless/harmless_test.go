//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rounds is how often each suite runs with the profiler, and how often without.
const rounds = 3

// TestSuites checks that each test of a suite has the same verdict with and without the profiler.
func TestSuites(t *testing.T) {
	when := always
	switch v := os.Getenv("GOTACH_HARMLESS"); v {
	case "":
	case "quick":
		when = quick
	case "all":
		when = all
	default:
		t.Fatalf("GOTACH_HARMLESS=%s is neither quick nor all", v)
	}
	for _, s := range suites {
		if s.when > when {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			for _, p := range prepare(t, s) {
				t.Run(p.path, func(t *testing.T) {
					p.build(t)
					for _, harm := range compare(t, s, p, rounds) {
						t.Error(harm)
					}
				})
			}
		})
	}
}

// TestHarmIsSeen checks that compare finds each kind of harm, and finds none if there is none.
func TestHarmIsSeen(t *testing.T) {
	s := suite{module: "testdata/harmed", pkgs: []string{"."}, timeout: 2 * time.Second}
	p := prepare(t, s)[0]
	p.build(t)
	for _, tc := range []struct{ run, want string }{
		{"Fails", `TestFails: "fail" (run: true), without the profiler "pass"`},
		{"Vanishes", `TestVanishes/part: "" (run: false), without the profiler "pass"`},
		{"Ends", `ends with "exit status 3", without the profiler with "exit status 0"`},
		{"Dies", `TestDies: "" (run: true), without the profiler "pass"`},
		{"Hangs", `ends with "exit status 2"`},
		{"Complains", "the profiler complains"},
		{"Nothing", "no test ran"},
	} {
		s.run = "^Test(Well|" + tc.run + ")$"
		if tc.run == "Nothing" {
			s.run = "^TestNothing$"
		}
		if got := strings.Join(compare(t, s, p, 1), "\n"); !strings.Contains(got, tc.want) {
			t.Errorf("%s: no %q in\n%s", tc.run, tc.want, got)
		}
	}
	s.run = "^TestWell$"
	if got := compare(t, s, p, 1); len(got) != 0 {
		t.Errorf("compare found harm, but there is none: %s", strings.Join(got, "\n"))
	}
	p.profiled = p.plain
	if got := strings.Join(compare(t, s, p, 1), "\n"); !strings.Contains(got, "the profile: ") {
		t.Errorf("compare did not find that the profile is missing: %s", got)
	}
}

// compare runs one package's tests with and without the profiler, in turns, so that other load on
// the machine affects both. It returns the differences.
func compare(t *testing.T, s suite, p pkg, rounds int) (harm []string) {
	t.Helper()
	logs, out := logDir(t), t.TempDir()
	log := func(kind string, round int) string {
		return filepath.Join(logs, fmt.Sprintf("%s.%s.%d.log", strings.ReplaceAll(p.path, "/", "_"), kind, round))
	}
	for round := range rounds {
		found := func(format string, args ...any) {
			harm = append(harm, fmt.Sprintf("round %d: ", round)+fmt.Sprintf(format, args...))
		}
		plain := start(t, s, p, p.plain, log("plain", round))
		if len(plain.verdict) == 0 {
			found("no test ran\n%s", tail(plain.log))
			return harm
		}
		profiled := start(t, s, p, p.profiled, log("profiled", round),
			"PROFILE_OUT="+filepath.Join(out, "%p.tach"), "PROFILE_SOURCE=native", "PROFILE_RATE=1000")
		if d := diff(plain.outcome, profiled.outcome); d != "" {
			found("with the profiler\n%s\nwith it:\n%s\nwithout it:\n%s", d, tail(profiled.log), tail(plain.log))
		}
		if plain.killed || profiled.killed {
			found("killed after the timeout; with the profiler: %v, without: %v", profiled.killed, plain.killed)
		}
		if b, err := os.ReadFile(profiled.log); err != nil || strings.Contains(string(b), "gotach: ") {
			found("the profiler complains (%v)\n%s", err, tail(profiled.log))
		}
		st, err := sampled(filepath.Join(out, fmt.Sprint(profiled.pid, ".tach")))
		if err != nil {
			found("the profile: %v", err)
			continue
		}
		t.Logf("round %d: %d verdicts, %s, %.1f s and %.1f s with the profiler: %d samples, %d dropped, %d of %d ticks",
			round, len(plain.verdict), plain.end, plain.took.Seconds(), profiled.took.Seconds(),
			st.Samples, st.Dropped, st.TicksReached, st.TicksAsked)
		clean(out)
	}
	return harm
}
