package analyze

import (
	"time"

	"github.com/gotach/profiler/internal/profile"
)

// knowsRequests reports whether a profile has functions that are requests if nothing else is said.
func knowsRequests(p *profile.Profile) bool {
	for i := range p.Frames {
		for k := range requestKinds {
			if requestKinds[k].function.MatchString(p.Frames[i].Func) {
				return true
			}
		}
	}
	return false
}

// requestFunc returns the function with the most time of those that goroutines call which take one job after the
// other: in the function that they began with, which may be a module's, they wait for the next one. It is the first
// of the program's own functions that this one calls. Without idle it is "".
func requestFunc(p *profile.Profile, idle *Idle) (best string) {
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
			case at.entry == "" && !wrappers[name]:
				at.entry = name
			case at.entry != "" && profile.CodeOf(f) == profile.ProgramCode:
				at.function = f.Func
			}
		}
		switch {
		case at.entry == "main.main":
		case at.function != "":
			times[at] += rec.Wall
		case idle != nil && idle.Is(WaitKey(rec.Key)):
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
