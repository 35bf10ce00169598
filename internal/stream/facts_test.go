package stream

import (
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv/cmp"
	"pgregory.net/rapid"
)

// Facts about goroutines are found again, however many there are.
func TestFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &facts{seed: rapid.Uint64().Draw(t, "seed"), index: make([]uint32, 16)}
		want := map[uint64]uint64{}
		ids := rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64())
		for range rapid.IntRange(0, 300).Draw(t, "goroutines") {
			id := ids.Draw(t, "id")
			f.of(id).weight++
			want[id]++
		}
		if len(f.list) != len(want) {
			t.Fatalf("%d facts, want %d", len(f.list), len(want))
		}
		for id, n := range want {
			if x := f.find(id); x == nil || x.weight != n {
				t.Fatalf("goroutine %d has %+v, want %d", id, x, n)
			}
		}
		if id := ids.Draw(t, "other"); want[id] == 0 && f.find(id) != nil {
			t.Fatalf("goroutine %d is known", id)
		}
	})
}

// Equal creators of all files have one number.
func TestCreators(t *testing.T) {
	f, g, h := Creator{"main.f", "x.go:1"}, Creator{"main.f", "x.go:2"}, Creator{"main.h", ""}
	c := creatorNumbers{number: map[Creator]uint32{{}: 0}}
	list := []Creator{{}}
	var got []uint32
	for range 2 {
		for _, x := range []Creator{f, g, f, h, {}, {"a", "1"}, {"a", "2"}, {"a", "3"}, f} { // more than creatorNumbers.latest has
			got = append(got, c.of(x, &list))
		}
	}
	if want := []uint32{1, 2, 1, 3, 0, 4, 5, 6, 1}; !slices.Equal(got, append(want, want...)) {
		t.Errorf("%v", got)
	}
	var all creators
	if got := all.add(list); !slices.Equal(got, []uint32{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("the first file has %v", got)
	}
	if got := all.add([]Creator{{}, h, {"b", ""}, f}); !slices.Equal(got, []uint32{0, 3, 7, 1}) {
		t.Errorf("the second file has %v", got)
	}
	if d := cmp.Diff(all.list[7], Creator{"b", ""}); d != "" {
		t.Error(d)
	}
}
