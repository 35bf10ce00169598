package locks

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/analyze/syntax"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// What is said of how many places of a pool are in use is the limit that the program has set. Where the source text is not there, most of
// those who have a connection are not known, and nothing is said.
func TestInUse(t *testing.T) {
	below := testenv.Must(source.Below([]string{"../../../testdata"}))
	for _, c := range []struct{ program, function, text, none string }{
		{"pool-sql", "shop..checkOut", "a free connection of sql.DB (2 of 2 in use)", "a free connection of sql.DB"},
		{"pool-http", "gateway..forward", "a connection of http.Transport (2 in use)", "a connection of http.Transport"},
		{"errgroup-limit", "migration..page", "a place in errgroup.Group (1 of 1 in use)", "a place in errgroup.Group (1 of 1 in use)"},
		{"semaphore", "thumbnails..make", "t.slots (2 of 2 places taken)", "channel in main.(*thumbnails).make (2 of 2 places taken)"},
	} {
		name := func(read func(string) *source.File) string {
			f := testenv.Must(reader.Open("../findings/testdata/causes/" + c.program + ".tach"))
			defer f.Close()
			w := newWaitChains(analyzetest.SamplesOf(t, stream.Options{Labels: true, Objects: true}, f), WaitOptions{Func: regexp.MustCompile(c.function), Options: Options{Source: read}})
			waits := testenv.Must(w.find())
			for _, n := range waits.Chains {
				if !strings.Contains(n.Name, "response") {
					return n.Name
				}
			}
			return ""
		}
		if got := name(below.Read); got != c.text {
			t.Errorf("%s: %q, want %q", c.program, got, c.text)
		}
		if got := name(func(string) *source.File { return nil }); got != c.none {
			t.Errorf("%s without source text: %q, want %q", c.program, got, c.none)
		}
	}
}

// Nothing is said where the number differs from time to time, and of several pools at once.
func TestInUseUnsure(t *testing.T) {
	k := knownIn["database/sql.(*DB).conn"]
	a, b := syntax.Key{Root: "shop", Path: "a"}, syntax.Key{Root: "shop", Path: "b"}
	for want, notes := range map[string][]inUse{
		"":                 {{of: a, times: map[int]int{2: 7, 1: 3}}, {of: a, times: map[int]int{0: 9, 1: 1}}},
		" (2 of 2 in use)": {{of: a, times: map[int]int{2: 9, 1: 1}}},
	} {
		for _, u := range notes {
			if got := u.text(k); got != want {
				t.Errorf("%v: %q, want %q", u, got, want)
			}
		}
	}
	w := waitChains{inUse: map[*KnownWait]*inUse{}}
	w.noteInUse(k, a, 2)
	w.noteInUse(k, b, 2)
	if got := w.inUse[k].text(k); got != "" {
		t.Errorf("two pools: %q", got)
	}
}
