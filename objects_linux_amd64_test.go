package profiler_test

import (
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	profiler "github.com/gotach/profiler"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// Each file of a rotated session says what its goroutines wait for.
func TestObjectsInFiles(t *testing.T) {
	t.Setenv("PROFILE_SOURCE", "native")
	path := filepath.Join(t.TempDir(), "x.tach")
	s, err := profiler.Open(profiler.Output(path), profiler.RotateEvery(time.Second), profiler.Source(profiler.Native))
	if err != nil {
		t.Fatal(err)
	}
	c := make(chan int, 3)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { <-c })
	}
	time.Sleep(2500 * time.Millisecond)
	close(c)
	all.Wait()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	files := s.Files()
	if len(files) < 2 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files[:2] {
		r, err := reader.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		m, err := r.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		want := tachyon.AllObjects
		if strings.HasPrefix(runtime.Version(), "go1.25") {
			want = tachyon.OnlyChannels
		}
		if m.Session.Objects != want {
			t.Errorf("the session knows %q, want %q", m.Session.Objects, want)
		}
		number := int32(0)
		for _, o := range m.Objects {
			if o.Addr == uint64(*(*uintptr)(unsafe.Pointer(&c))) {
				number = o.Number
				if o.Kind != tachyon.ObjectChannel || o.Capacity != 3 || o.Static != 0 {
					t.Errorf("the channel is %+v", o)
				}
			}
		}
		if number == 0 {
			t.Fatalf("%s: the channel is not among the objects %+v", file, m.Objects)
		}
		frames, waits := r.Frames(), 0
		for sample, err := range r.Samples() {
			if err != nil {
				t.Fatal(err)
			}
			if len(sample.Stack) > 0 && frames[sample.Stack[0]] == (tachyon.Frame{Func: "[chan receive]", Line: number}) {
				waits++
			}
		}
		if waits < 5 {
			t.Errorf("%s: %d samples wait for the channel", file, waits)
		}
	}
}
