package findings

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/tachyon"
)

// Holds that are too short to tell one from the next are told by what is done past the lock, at the line that calls the library which takes
// it. What several do at a time, or one now and then, is not what the holder does.
func TestPast(t *testing.T) {
	put := []tachyon.Frame{analyzetest.Place("main.put", 5), analyzetest.Place("main.serve", 7)}
	library := tachyon.Frame{File: "/root/go/pkg/mod/go.etcd.io/bbolt@v1.5.0/db.go", Func: "go.etcd.io/bbolt.(*DB).Update", Line: 3}
	waits := slices.Concat(analyzetest.WaitFor("sync.Mutex.Lock", 1), []tachyon.Frame{library}, put)
	syncs := slices.Concat([]tachyon.Frame{analyzetest.Wait("syscall"), analyzetest.Place("os.(*File).Sync", 1), library}, put)
	for _, c := range []struct {
		name  string
		past  uint64 // goroutines at a time
		every uint64 // ticks
		want  bool
	}{
		{"one at a time", 1, 1, true},
		{"two", 2, 1, false},
		{"now and then", 1, 3, false},
	} {
		r := analyzetest.Record(t)
		r.Objects = append(r.Objects, tachyon.Object{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000010000})
		for id := range uint64(8) {
			r.Goroutine(tachyon.Goroutine{ID: id + 1, CreatedBy: "main.main"})
		}
		for tick := range uint64(400) {
			for id := range uint64(8) {
				if (id+8-tick%8)%(8/c.past) == 0 && tick%c.every == 0 {
					r.Add(id+1, tick*10_000, tachyon.Moved, syncs...)
				} else {
					r.Add(id+1, tick*10_000, tachyon.Moved, waits...)
				}
			}
		}
		list := foundIn(t, r, tachyon.Session{Source: "native", Markers: true, GOMAXPROCS: 4, Duration: 4 * time.Second})
		if len(list) == 0 || list[0].Kind != Lock {
			t.Errorf("%s: %+v", c.name, list)
			continue
		}
		if got := strings.Contains(list[0].Text, "past it"); got != c.want || c.want && !strings.Contains(list[0].Text, "; past it, 1.00 goroutines on average waited until data were on the disk (fsync) in main.put ") {
			t.Errorf("%s: %q", c.name, list[0].Text)
		}
	}
}
