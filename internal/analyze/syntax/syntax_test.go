package syntax

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// read returns the text of a file in testdata, and what finds only that text.
func read(name string) (string, *Sources) {
	text := testenv.Must(os.ReadFile("testdata/" + name))
	return string(text), NewSources(func(string) *source.File { return &source.File{Text: text} })
}

// parsed returns a file in testdata and its text.
func parsed(name string) (*File, string) {
	text, s := read(name)
	return s.File(&tachyon.Frame{File: "/app/cache.go"}), text
}

// checkHeld checks in which lines a lock is held, or a place of a channel: those with "held" in a comment. Functions of the two names
// take and give back what their callers hold.
func checkHeld(t *testing.T, name string, places map[Key]bool, take, give string) (held []*Region) {
	t.Helper()
	wrappers := map[string]*Region{}
	file, text := parsed(name)
	for _, x := range file.Funcs {
		for _, r := range x.Regions(nil, places) {
			name := x.Decl.Name.Name
			if wraps := x.Outer == nil && (name == take || name == give); wraps {
				wrappers[name] = r
			}
			if x.Outer == nil && (places == nil || r.Paired()) {
				testenv.Same(t, name+" escapes, releases", [2]bool{r.Escapes, r.Releases}, [2]bool{name == take, name == give})
			}
		}
	}
	testenv.Same(t, "wrappers", len(wrappers), 2)
	for i, line := range strings.Split(text, "\n") {
		x, holds := file.At(i+1), false
		if x == nil {
			continue
		}
		for _, r := range x.Regions(wrappers, places) {
			if (places == nil || r.Paired()) && r.Holds(i+1) {
				holds, held = true, append(held, r)
			}
		}
		testenv.Same(t, fmt.Sprintf("line %d: %s", i+1, line), holds, strings.HasSuffix(line, "// held"))
	}
	return held
}

func TestRegions(t *testing.T) {
	for _, r := range checkHeld(t, "regions.go", nil, "lock", "unlock") {
		testenv.Same(t, "the key", r.Key, Key{Dir: "/app", Root: "cache", Path: map[bool]string{false: "mu", true: "table"}[r.Read]})
	}
}

// Locks have the key that is in the comment, and a text if they are simple.
func TestLockKeys(t *testing.T) {
	file, text := parsed("keys.go")
	lines, found, texts := strings.Split(text, "\n"), 0, []string{}
	for _, x := range file.Funcs {
		for _, op := range x.Ops {
			found++
			texts = append(texts, Text(op.On))
			k := x.Key(op.On)
			_, want, _ := strings.Cut(lines[op.Line-1], "// ")
			testenv.Same(t, fmt.Sprint("line ", op.Line), strings.TrimSpace(k.Root+" "+k.Path), want)
		}
	}
	testenv.Same(t, "locks", found, strings.Count(text, "// "))
	testenv.Same(t, "texts", strings.Join(texts, ", "), "p.mu, list[].mu, own, made.mu, got.mu, mu, cache.mu, p, p.sub.mu, got, find()().mu, , own")
}

func TestRegionsOfChannels(t *testing.T) {
	checkHeld(t, "channels.go", map[Key]bool{
		{Dir: "/app", Root: "limit", Path: "slots", Op: DoesSend}:    true,
		{Dir: "/app", Root: "tokens", Path: "free", Op: DoesReceive}: true,
	}, "acquire", "release")
}

func TestChannelKeys(t *testing.T) {
	file, text := parsed("channels.go")
	for _, want := range []struct {
		text string
		keys []Key
	}{
		{"for j := range jobs", []Key{{Dir: "/app", Root: "func consume", Path: "jobs"}, {Dir: "/app", Root: RootElement, Path: "int jobs"}}},
		{"results <- find(j)", []Key{{Dir: "/app", Root: "func consume", Path: "results"}, {Dir: "/app", Root: RootElement, Path: "[]string results"}}},
		{"case <-done", []Key{{Dir: "/app", Root: "func choose", Path: "done"}, {Dir: "/app", Root: RootElement, Path: "int done"}}},
		{"l.other <- struct{}{}", []Key{{Dir: "/app", Root: "limit", Path: "other"}}},
	} {
		line := 1 + strings.Count(text[:strings.Index(text, want.text)], "\n")
		x := file.At(line)
		i := slices.IndexFunc(x.Ops, func(op Op) bool { return op.Line == line })
		testenv.NoDiff(t, want.text, cmp.Diff(want.keys, x.ChannelKeys(x.Ops[i])))
	}
}

// Selects with "offers" in a comment wait to send to the channel that follows.
func TestOffers(t *testing.T) {
	text, s := read("selects.go")
	for i, line := range strings.Split(text, "\n") {
		_, comment, ok := strings.Cut(line, "select { // ")
		if !ok {
			continue
		}
		want, _ := strings.CutPrefix(comment, "offers ")
		if want == comment {
			want = ""
		}
		function := "main.pump"
		if i < strings.Count(text[:strings.Index(text, "func pump")], "\n") {
			function = "main.(*parser).lines"
		}
		if strings.HasPrefix(line, "\t\t\t") {
			function += ".func1"
		}
		testenv.Same(t, fmt.Sprint("line ", i+1), Text(s.Offers(&tachyon.Frame{File: "/app/main.go", Func: function, Line: int32(i + 1)})), want)
	}
	testenv.Same(t, "a line without a select", s.Offers(&tachyon.Frame{File: "/app/main.go", Func: "main.pump", Line: 2}), nil)
	testenv.Same(t, "without text", NewSources(nil).Offers(&tachyon.Frame{File: "/app/main.go", Line: 5}), nil)
}

// Waits are for what is in the comment, of these words.
func TestForTime(t *testing.T) {
	text, s := read("times.go")
	looked := 0
	for i, line := range strings.Split(text, "\n") {
		_, want, ok := strings.Cut(line, " // ")
		if !ok {
			continue
		}
		looked++
		function := "main.(*sender).send"
		if strings.HasPrefix(line, "\t\t") {
			function += ".func1"
		}
		got := s.ForTime(&tachyon.Frame{File: "/app/main.go", Func: function, Line: int32(i + 1)})
		testenv.Same(t, fmt.Sprint("line ", i+1), got, map[string]Time{"delay": Delay, "tick": Tick, "one tick": OneTick}[want])
	}
	testenv.Same(t, "line 4", s.ForTime(&tachyon.Frame{File: "/app/main.go", Func: "main.(*sender).send", Line: 4}), NoTime)
	testenv.Same(t, "lines", looked, 15)
	testenv.Same(t, "a wait without text", NewSources(nil).ForTime(&tachyon.Frame{File: "/app/main.go", Line: 6}), NoTime)
}

// Lines that wait for the answer to what they have asked for have "asks" in a comment. What is indented in three functions is in a loop.
func TestAsks(t *testing.T) {
	text, s := read("asks.go")
	function := ""
	for i, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(line, "func "); ok {
			function, _, _ = strings.Cut(name, "(")
		}
		f := &tachyon.Frame{File: "/app/cache.go", Func: "main." + function, Line: int32(i + 1)}
		testenv.Same(t, fmt.Sprintf("line %d: %s", i+1, line), s.Asks(f), strings.HasSuffix(line, "// asks"))
		testenv.FailIf(t, function == "serve" && s.Ranges(f) != strings.HasSuffix(line, "// ranges"), "line %d: %s: ranges %v", i+1, line, s.Ranges(f))
		inLoop := (function == "each" || function == "consume" || function == "timed") && strings.HasPrefix(line, "\t\t")
		testenv.FailIf(t, function != "serve" && inLoop != s.Repeats(f) && (inLoop || !strings.HasPrefix(line, "\tfor") && line != "\t}"), "line %d: %s: in a loop %v", i+1, line, !inLoop)
	}
}
