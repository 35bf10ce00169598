package parquet

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotach/profiler/internal/testenv"
)

// Rows come in order, and as they were, however few of them fit into memory.
func TestSort(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := &sorter{dir: dir, limit: rapid.IntRange(1, 20).Draw(t, "limit"), less: func(a, b *row) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.goroutine, b.goroutine))
		}}
		defer s.close()
		var want []row
		for i := range rapid.IntRange(0, 100).Draw(t, "rows") {
			r := row{
				start: rapid.Int64().Draw(t, "start") >> rapid.IntRange(0, 62).Draw(t, "shift"), goroutine: uint64(i), wall: int64(-i), cpu: int64(i) << 40,
				file: uint32(i), creator: uint32(i) << 20, place: ^uint32(i), kind: uint8(i % 3), labels: rapid.String().Draw(t, "labels"),
			}
			want = append(want, r)
			testenv.OK(t, s.add(&r))
		}
		slices.SortFunc(want, func(a, b row) int { return s.less(&a, &b) })
		var got []row
		for r := range testenv.All(t, s.rows()) {
			got = append(got, *r)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left %v, %v", list, err)
	}
}
