package push

import (
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
)

// A file has one id: as the program left it when it was killed, and after recovery. Other files have others.
func TestFileID(t *testing.T) {
	dir := t.TempDir()
	p := process{pid: 7, program: "shop"}
	p.file(t, filepath.Join(dir, "a.1.tach"), 1, true)
	p.file(t, filepath.Join(dir, "a.2.tach"), 2, false)
	process{pid: 8, program: "shop"}.file(t, filepath.Join(dir, "b.1.tach"), 1, true)
	copyFile(t, filepath.Join(dir, "a.1.tach"), filepath.Join(dir, "copy.tach"))
	d := testenv.Must(openFolder(dir))
	defer d.Close()
	open := func(name string) *File {
		f := testenv.Must(openFile(d, name))
		return f
	}
	a, b, killed, other := open("a.1.tach"), open("copy.tach"), open("a.2.tach"), open("b.1.tach")
	if a.ID != b.ID || a.ID == killed.ID || a.ID == other.ID || a.ID == (ID{}) {
		t.Errorf("ids %v, of the copy %v, of other files %v %v", a.ID, b.ID, killed.ID, other.ID)
	}
	if a.ID.Part("1") == a.ID.Part("2") || a.ID.Part("1") == a.ID {
		t.Error("parts do not have ids of their own")
	}
	if a.Service != "shop" || a.Version != "v1.4.2" || a.Host != "web-1" || a.PID != 7 || a.End.Sub(a.Start).Seconds() != 1 || a.Samples == 0 {
		t.Errorf("%+v", a)
	}
	if _, err := recovery.Finish(filepath.Join(dir, "a.2.tach")); err != nil {
		t.Fatal(err)
	}
	if again := open("a.2.tach"); again.ID != killed.ID {
		t.Errorf("id %v of the recovered file, %v before", again.ID, killed.ID)
	}
	x, y, z := &Batch{Files: []*File{a, other}}, &Batch{Files: []*File{a, other}}, &Batch{Files: []*File{a}}
	if x.ID() != y.ID() || x.ID() == z.ID() || x.without(other).ID() != z.ID() {
		t.Error("a batch's id is not that of its files")
	}
}

// all reads all samples.
func all(src *stream.Source) error {
	for _, err := range src.Samples() {
		if err != nil {
			return err
		}
	}
	return nil
}
