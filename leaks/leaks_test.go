package leaks

import (
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
	"github.com/gotach/profiler/tachyon"
)

//go:noinline
func waitForever() { <-make(chan int) }

// The runtime of Go 1.27 says which goroutines of a session are leaked, and where they wait. With an older one the file says that this is not
// known. Those that wait for something in use go on after that.
func TestProvenLeaks(t *testing.T) {
	path, used := filepath.Join(t.TempDir(), "x.tach"), make(chan int)
	s := testenv.Must(profiler.Open(profiler.Output(path), profiler.Leaks()))
	for range 3 {
		go waitForever()
		go func() { used <- 1 }()
	}
	testenv.Await(func() bool { return s.Stats().Samples >= 30 })
	testenv.OK(t, s.Stop())
	for range 3 {
		<-used
	}
	f := testenv.Must(reader.Open(path))
	defer f.Close()
	l := testenv.Must(f.Metadata()).Session.Leaks
	if pprof.Lookup("goroutineleak") == nil {
		testenv.Prints(t, "leaks and groups", "0 0", l.Count, len(l.Groups))
		testenv.Has(t, "why they are not known", l.Unavailable, runtime.Version())
		return
	}
	testenv.Prints(t, "leaks and groups", "3 1 ", l.Count, len(l.Groups), l.Unavailable)
	testenv.Has(t, "the leak", l.Groups[0].Frames[0].Func, ".waitForever")
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
