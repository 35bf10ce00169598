package instant

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// Text returns goroutines as runtime.Stack prints them. That a goroutine was not seen is in
// parentheses, as the runtime has "(scan)": parsers of such texts take this as part of the state,
// and some refuse anything that is new after a comma.
func Text(list []Goroutine) []byte {
	var b bytes.Buffer
	for i := range list {
		g := &list[i]
		line(&b, "\ngoroutine %d [%s", g.ID, stackState(g.State))
		switch {
		case g.Seen <= -time.Millisecond:
			line(&b, " (not seen since %s)", profile.DurationText(-g.Seen))
		case g.Seen >= time.Millisecond:
			line(&b, " (seen %s later)", profile.DurationText(g.Seen))
		}
		if g.Waited >= time.Minute {
			line(&b, ", %d minutes", g.Waited/time.Minute)
		}
		if len(g.Labels) > 0 {
			line(&b, " labels:{%s}", labelsText(g.Labels))
		}
		b.WriteString("]:\n")
		if len(g.Frames) == 0 && g.State == stream.Running {
			b.WriteString("\tgoroutine running on other thread; stack unavailable\n") // the runtime's words
		}
		for _, f := range g.Frames {
			if inRuntime(f.Func) {
				continue
			}
			line(&b, "%s(...)\n\t%s:%d\n", f.Func, cmp.Or(f.File, "??"), f.Line)
		}
		if g.CreatedBy == "" || g.ID == 1 {
			continue
		}
		line(&b, "created by %s", g.CreatedBy)
		if g.Parent != 0 {
			line(&b, " in goroutine %d", g.Parent)
		}
		line(&b, "\n\t%s\n", cmp.Or(g.CreatedAt, "??:0"))
	}
	return b.Bytes()
}

// inRuntime reports whether the runtime leaves a function out of the stacks that it prints: it is
// one of its own, and not exported.
func inRuntime(function string) bool {
	name, ok := strings.CutPrefix(function, "runtime.")
	name = name[strings.LastIndexByte(name, '.')+1:]
	return ok && name != "" && !('A' <= name[0] && name[0] <= 'Z')
}

// stackState returns a state as the runtime has it.
func stackState(state string) string {
	switch state {
	case stream.NoCore:
		return stream.Running
	case stream.SyscallOnCPU, stream.InC, stream.OnCPUInC:
		return stream.Syscall
	}
	return state
}

// labelsText returns labels as Go 1.27 prints them, in the order of their keys.
func labelsText(labels map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, strconv.Quote(k)+": "+strconv.Quote(labels[k]))
	}
	return strings.Join(list, ", ")
}

// Grouped returns goroutines with equal stacks, states and labels together, the most first.
func Grouped(list []Goroutine) []byte {
	count := map[string]int{}
	for i := range list {
		g := &list[i]
		var b bytes.Buffer
		line(&b, " @ [%s]\n", stackState(g.State))
		if len(g.Labels) > 0 {
			line(&b, "# labels: {%s}\n", labelsText(g.Labels))
		}
		for _, f := range g.Frames {
			line(&b, "#\t%s\t%s:%d\n", f.Func, cmp.Or(f.File, "??"), f.Line)
		}
		count[b.String()]++
	}
	var b bytes.Buffer
	for _, text := range slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	}) {
		line(&b, "\n%d", count[text])
		b.WriteString(text)
	}
	return b.Bytes()
}

// line writes text with names that may have any characters: what is not printable is replaced.
func line(b *bytes.Buffer, format string, args ...any) {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = strings.Map(func(r rune) rune {
				if unicode.IsPrint(r) {
					return r
				}
				return unicode.ReplacementChar
			}, text)
		}
	}
	fmt.Fprintf(b, format, args...)
}
