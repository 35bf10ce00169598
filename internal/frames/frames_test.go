package frames

import (
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

func frame(name string) tachyon.Frame { return tachyon.Frame{Func: name, Line: 1} }

func TestTable(t *testing.T) {
	var table Table
	for i, name := range []string{"a", "b", "a", "c", "b"} {
		testenv.Same(t, name, table.Intern(frame(name)), []uint32{0, 1, 0, 2, 1}[i])
	}
	testenv.Same(t, "another line of a has id", table.Intern(tachyon.Frame{Func: "a", Line: 2}), 3)
	list := table.List()
	testenv.FailIf(t, len(list) != 4 || list[2] != frame("c"), "frames %v", list)
}

// A frame is added once, at the first stack with it.
func TestRemap(t *testing.T) {
	var from, to Table
	for _, name := range []string{"a", "b", "c"} {
		from.Intern(frame(name))
	}
	to.Intern(frame("x"))
	m := Remap{From: from.List(), To: &to}
	translate := func(want []uint32, stack ...uint32) {
		t.Helper()
		got, err := m.Stack(stack)
		testenv.FailIf(t, err != nil || !slices.Equal(got, want), "%d becomes %d, want %d (%v)", stack, got, want, err)
	}
	translate([]uint32{1, 2, 1}, 2, 0, 2)
	translate([]uint32{2}, 0)
	translate(nil)
	testenv.Fails(t, "a frame too many", testenv.Err(m.Stack([]uint32{3})), "refers to frame 3, but there are 3 frames")
	from.Intern(frame("d"))
	m.From = from.List()
	translate([]uint32{3, 1}, 3, 2)
	testenv.SameList(t, "the other table", to.List(), []tachyon.Frame{frame("x"), frame("c"), frame("a"), frame("d")})

	var next Table
	m.Reset(&next)
	translate([]uint32{0, 1}, 3, 2)
	testenv.SameList(t, "after Reset the other table", next.List(), []tachyon.Frame{frame("d"), frame("c")})
}
