//go:build darwin || dragonfly || freebsd || linux || netbsd

package writer

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// TestObjectsKept reads a file's objects before it is finished, as after a kill, and afterwards.
func TestObjectsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w, err := Create(path, Options{Start: 1, Interval: 1000})
	if err != nil {
		t.Fatal(err)
	}
	first := []tachyon.Object{{Number: 1, Kind: tachyon.ObjectMutex, Addr: 0xc000123456}, {Number: 3, Kind: tachyon.ObjectChannel, Capacity: -1}}
	then := []tachyon.Object{
		{Number: 2, Kind: tachyon.ObjectCond, Static: 0x5000, Symbol: "main.x", Offset: 8},
		{Number: 1, Kind: tachyon.ObjectRWMutex, Addr: 0xc000123456},
		{Number: 4, Kind: tachyon.ObjectSelect, Members: []int32{3, 5}},
	}
	want := []tachyon.Object{then[1], then[0], first[1], then[2]}
	for _, list := range [][]tachyon.Object{first, then} {
		if err := w.WriteRecords(&tachyon.Records{Objects: list}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		r, err := reader.Open(path)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer r.Close()
		m, err := r.Metadata()
		if err != nil || !reflect.DeepEqual(m.Objects, want) {
			t.Errorf("%s: %v\n%+v, want\n%+v", when, err, m.Objects, want)
		}
	}
	check("unfinished")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	check("finished")
}
