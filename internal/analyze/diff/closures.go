package diff

import (
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/tachyon"
)

// closures gives function literals names that do not depend on the Go version. Go 1.26 numbers the
// literals of an inlined generic function as those of its caller, and Go 1.27 those of a
// range-over-func body apart from the function's. So all literals of a function have one name here.
// A file's functions of one name count as one; a literal in an inlined function is in that one's
// file.
type closures map[literal]string

type literal struct{ file, function string }

// name returns a function's name.
func (c closures) name(f *tachyon.Frame) string {
	at := analyze.Closure.FindStringIndex(f.Func)
	if at == nil {
		return f.Func
	}
	base := f.Func[:at[0]]
	last := base
	if i := strings.LastIndexByte(strings.ReplaceAll(base, "[...]", "[   ]"), '.'); i >= 0 {
		last = base[i+1:]
	}
	key := literal{f.File, last}
	if c[key] == "" {
		c[key] = base + ".func"
	}
	return c[key]
}
