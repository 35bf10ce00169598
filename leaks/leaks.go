// Package leaks lets sessions ask the Go runtime at Stop which goroutines it can prove to be
// leaked. Import it for its effect:
//
//	import _ "github.com/gotach/profiler/leaks"
//
// This enables [profiler.Leaks] and the variable PROFILE_LEAKS. Without the import the profile says
// why nothing is known, and the program does not link runtime/pprof's profiles. Go 1.27 can prove
// leaks, older versions cannot. "gotach leaks" shows what was found.
//
// [profiler.Leaks]: https://pkg.go.dev/github.com/gotach/profiler#Leaks
package leaks

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/tachyon"
)

var _ = own.Hide(provenLeaks)

func init() { hook.ProvenLeaks = provenLeaks }

const (
	// maxLeakGroups is the number of stacks of leaked goroutines in a profile.
	maxLeakGroups = 500
	// maxLeakText bounds the memory for the runtime's text about them.
	maxLeakText = 8 << 20
)

// provenLeaks asks the runtime which goroutines it can prove to be leaked. The runtime collects
// garbage for that.
func provenLeaks() *tachyon.ProvenLeaks {
	p := pprof.Lookup("goroutineleak")
	if p == nil {
		return &tachyon.ProvenLeaks{Unavailable: runtime.Version() + " cannot prove leaks, Go 1.27 can"}
	}
	var text head
	if err := p.WriteTo(&text, 1); err != nil {
		return &tachyon.ProvenLeaks{Unavailable: err.Error()}
	}
	return parseLeaks(string(text.bytes))
}

// head is a writer that keeps the first maxLeakText bytes.
type head struct{ bytes []byte }

func (h *head) Write(b []byte) (int, error) {
	h.bytes = append(h.bytes, b[:min(len(b), maxLeakText-len(h.bytes))]...)
	return len(b), nil
}

// parseLeaks reads the text of a goroutineleak profile:
//
//	goroutineleak profile: total 3
//	3 @ 0x47a48e 0x412345
//	#	0x4a1b04	main.leak.func1+0x24	/src/main.go:12
//
// Goroutines with different labels have stacks of their own there. They are added up.
func parseLeaks(text string) *tachyon.ProvenLeaks {
	out := &tachyon.ProvenLeaks{}
	counts := map[string]int{} // by stack
	stack, count := "", 0
	end := func() {
		if count > 0 && stack != "" {
			counts[stack] += count
		}
		stack, count = "", 0
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		number, isStack := strings.CutSuffix(strings.SplitN(line, "@", 2)[0], " ")
		switch {
		case strings.HasPrefix(line, "goroutineleak profile: total "):
			out.Count, _ = strconv.Atoi(strings.TrimPrefix(line, "goroutineleak profile: total "))
		case strings.HasPrefix(line, "#"):
			stack += line + "\n"
		case isStack:
			end()
			count, _ = strconv.Atoi(number)
		}
	}
	end()
	for stack, n := range counts {
		g := tachyon.ProvenLeak{Count: n}
		for line := range strings.Lines(stack) {
			// The columns are aligned by tabs.
			columns := slices.DeleteFunc(strings.Split(strings.TrimSpace(line), "\t"), func(s string) bool { return s == "" })
			if len(columns) != 4 {
				continue // labels, or a function without a name
			}
			f := tachyon.LeakFrame{Func: columns[2], File: columns[3]}
			if at := strings.LastIndex(f.Func, "+0x"); at > 0 {
				f.Func = f.Func[:at]
			}
			if at := strings.LastIndexByte(f.File, ':'); at > 0 {
				n, _ := strconv.ParseInt(f.File[at+1:], 10, 32)
				f.File, f.Line = f.File[:at], int32(n)
			}
			g.Frames = append(g.Frames, f)
		}
		if len(g.Frames) > 0 {
			out.Groups = append(out.Groups, g)
		}
	}
	out.Groups = addEqual(out.Groups)
	slices.SortFunc(out.Groups, func(a, b tachyon.ProvenLeak) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(fmt.Sprint(a.Frames), fmt.Sprint(b.Frames)))
	})
	out.Groups = out.Groups[:min(len(out.Groups), maxLeakGroups)]
	return out
}

// addEqual adds up groups with equal stacks.
func addEqual(list []tachyon.ProvenLeak) []tachyon.ProvenLeak {
	index := map[string]int{}
	out := list[:0]
	for _, g := range list {
		key := fmt.Sprint(g.Frames)
		if i, ok := index[key]; ok {
			out[i].Count += g.Count
			continue
		}
		index[key] = len(out)
		out = append(out, g)
	}
	return out
}
