package frames

import (
	"slices"
	"testing"

	"github.com/gotach/profiler/tachyon"
)

func frame(name string) tachyon.Frame { return tachyon.Frame{Func: name, Line: 1} }

func TestTable(t *testing.T) {
	var table Table
	for i, name := range []string{"a", "b", "a", "c", "b"} {
		want := []uint32{0, 1, 0, 2, 1}[i]
		if id := table.Intern(frame(name)); id != want {
			t.Errorf("%s has id %d, want %d", name, id, want)
		}
	}
	if other := table.Intern(tachyon.Frame{Func: "a", Line: 2}); other != 3 {
		t.Errorf("another line of a has id %d", other)
	}
	if list := table.List(); len(list) != 4 || list[2] != frame("c") {
		t.Errorf("frames %v", list)
	}
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
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d becomes %d, want %d (%v)", stack, got, want, err)
		}
	}
	translate([]uint32{1, 2, 1}, 2, 0, 2)
	translate([]uint32{2}, 0)
	translate(nil)
	if _, err := m.Stack([]uint32{3}); err == nil {
		t.Error("frame id 3 of a table with 3 frames is accepted")
	}
	from.Intern(frame("d"))
	m.From = from.List()
	translate([]uint32{3, 1}, 3, 2)
	if want := []tachyon.Frame{frame("x"), frame("c"), frame("a"), frame("d")}; !slices.Equal(to.List(), want) {
		t.Errorf("the other table has %v, want %v", to.List(), want)
	}

	var next Table
	m.Reset(&next)
	translate([]uint32{0, 1}, 3, 2)
	if want := []tachyon.Frame{frame("d"), frame("c")}; !slices.Equal(next.List(), want) {
		t.Errorf("after Reset the other table has %v, want %v", next.List(), want)
	}
}
