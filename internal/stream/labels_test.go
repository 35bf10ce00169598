package stream

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Labels keep each label, whatever its texts, and equal ones have one address.
func TestLabels(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "\x00", "\xff"}), rapid.StringN(120, 400, -1))
	rapid.Check(t, func(t *rapid.T) {
		table := &labelTable{}
		if rapid.Bool().Draw(t, "many") {
			table.list = make([]*Labels, mostListed)
		}
		add := func(set map[string]string) *Labels { return table.get(table.add(set)) }
		set := rapid.MapOfN(text, text, 0, 5).Draw(t, "labels")
		l := add(set)
		if len(set) == 0 {
			if l != nil {
				t.Fatalf("%+v of no labels", l)
			}
			return
		}
		if !maps.Equal(l.Map(), set) || add(maps.Clone(set)) != l {
			t.Fatalf("%q, want %q", l.Map(), set)
		}
		other := rapid.MapOfN(text, text, 1, 5).Draw(t, "other")
		if (add(other) == l) != maps.Equal(set, other) {
			t.Fatalf("%q and %q", set, other)
		}
		keys := slices.Concat(slices.Collect(maps.Keys(set)), slices.Collect(maps.Keys(other)))
		for _, k := range keys {
			want, has := set[k]
			if v, ok := l.Get(k); v != want || ok != has {
				t.Fatalf("%q is %q, %v; want %q, %v", k, v, ok, want, has)
			}
		}
	})
}
