package requests

import (
	"strings"
	"time"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/analyze/idle"
	"github.com/gotach/profiler/internal/profile"
)

// Has reports whether a profile has functions that are requests if nothing else is said.
func Has(p *profile.Profile) bool {
	for i := range p.Frames {
		if _, ok := analyze.RequestKind(p.Frames[i].Func); ok || analyze.ServesFasthttp(p.Frames[i].Func) {
			return true
		}
	}
	return false
}

// LikelyFunc returns the function with the most time of those that goroutines call which take one
// job after the other: in the function that they began with, which may be a module's, they wait for
// the next one. It is the first of the program's own functions that this one calls; one in assembly
// is no job. Without idle it is "".
func LikelyFunc(p *profile.Profile, idles *idle.Idle) (best string) {
	type callee struct{ entry, function string }
	loops := map[string]bool{} // entries
	times := map[callee]time.Duration{}
	for i := range p.Records {
		rec := &p.Records[i]
		at := callee{}
		for n := len(rec.Stack) - 1; n >= 0 && at.function == ""; n-- {
			f := &p.Frames[rec.Stack[n]]
			switch name := profile.FuncName(f.Func); {
			case f.File == "":
			case at.entry == "" && !idle.Wrappers[name]:
				at.entry = name
			case at.entry != "" && profile.CodeOf(f) == profile.ProgramCode && !strings.HasSuffix(f.File, ".s"):
				at.function = f.Func
			}
		}
		switch {
		case at.entry == "main.main":
		case at.function != "":
			times[at] += rec.Wall
		case idles != nil && idles.Is(idle.Key(rec.Key)):
			loops[at.entry] = true
		}
	}
	most := time.Duration(0)
	for at, wall := range times {
		if loops[at.entry] && (wall > most || wall == most && at.function < best) {
			best, most = at.function, wall
		}
	}
	return best
}
