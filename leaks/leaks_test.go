package leaks

import (
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

// With a Go version that cannot prove leaks the metadata says so. TestProvenLeaks has the other case.
func TestLeaksUnavailable(t *testing.T) {
	l := provenLeaks()
	if known := pprof.Lookup("goroutineleak") != nil; known != (l.Unavailable == "") || !known && (!strings.Contains(l.Unavailable, runtime.Version()) || l.Count != 0 || l.Groups != nil) {
		t.Errorf("%+v", l)
	}
}

func TestParseLeaks(t *testing.T) {
	text := "goroutineleak profile: total 5\n" +
		"2 @ 0x47a48e 0x412345\n" +
		"# labels: {\"handler\":\"/a\\t\"}\n" +
		"#\t0x4a1b04\tmain.(*T[...]).leak.func1+0x24\t\t/src/my dir/main.go:12\n" +
		"#\t0x4a1b05\tmain.run+0x1\t\t\t\t/src/my dir/main.go:30\n\n" +
		"1 @ 0x47a48e 0x412345\n" +
		"#\t0x4a1b04\tmain.(*T[...]).leak.func1+0x24\t\t/src/my dir/main.go:12\n" +
		"#\t0x4a1b05\tmain.run+0x1\t\t\t\t/src/my dir/main.go:30\n\n" +
		"1 @ 0x47a48e\n#\t0x47a48e\n\n" + // a function without a name
		"1 @ 0x47a48f\n#\t0x4a1b04\tmain.other+0x24\t/src/main.go:7\n\n"
	leak := []tachyon.LeakFrame{{Func: "main.(*T[...]).leak.func1", File: "/src/my dir/main.go", Line: 12}, {Func: "main.run", File: "/src/my dir/main.go", Line: 30}}
	want := &tachyon.ProvenLeaks{Count: 5, Groups: []tachyon.ProvenLeak{
		{Count: 3, Frames: leak}, {Count: 1, Frames: []tachyon.LeakFrame{{Func: "main.other", File: "/src/main.go", Line: 7}}},
	}}
	testenv.NoDiff(t, "", cmp.Diff(want, parseLeaks(text)))
	for n := range text {
		parseLeaks(text[:n]) // cut off
	}
	for _, text := range []string{"x @ @\n#\n#\t\t\t\t\n", "goroutineleak profile: total x", "1 @\n#\t1\t+0x\t:\n"} {
		parseLeaks(text)
	}
}
