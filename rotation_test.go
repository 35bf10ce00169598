package profiler

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
)

// A session begins a new file every second and keeps two finished files.
func TestRotate(t *testing.T) {
	dir := t.TempDir()
	earlier := filepath.Join(dir, "x.3.tach")
	if err := os.WriteFile(earlier, []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &testenv.Log{}
	s, err := Open(Output(filepath.Join(dir, "x.tach")), RotateEvery(time.Second), KeepFiles(2), Logger(log.Logger()))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "x.4.tach"); s.Path() != want {
		t.Errorf("the first file is %s, want %s", s.Path(), want)
	}
	testenv.Await(func() bool { return fileNumber(s) >= 7 })
	if err := s.Stop(); err != nil || len(log.Lines()) > 0 {
		t.Fatal(err, log.Lines())
	}
	last := fileNumber(s)
	if last < 7 {
		t.Fatalf("the last file is %s", s.Path())
	}
	want := []string{filepath.Join(dir, fmt.Sprintf("x.%d.tach", last-1)), filepath.Join(dir, fmt.Sprintf("x.%d.tach", last))}
	if got := s.Files(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("kept %q, want %q", got, want)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(list) != 3 {
		t.Errorf("files in the directory: %q", list)
	}
	if b, err := os.ReadFile(earlier); err != nil || string(b) != "another's" {
		t.Errorf("the file that was there: %q, %v", b, err)
	}
	checkFiles(t, s, last-4)
}

// fileNumber returns 7 if the session writes x.7.tach, 0 if it writes x.tach.
func fileNumber(s *Session) (n int) {
	fmt.Sscanf(filepath.Base(s.Path()), "x.%d.tach", &n)
	return n
}

// A session without rotation begins a new file when the header of the old one cannot count
// more samples. The files belong to one session, and each has its own metadata.
func TestFileFull(t *testing.T) {
	dir := t.TempDir()
	log := &testenv.Log{}
	c, err := newConfig([]Option{Output(filepath.Join(dir, "x.tach")), KeepFiles(1), KeepBytes(2_000_000), Logger(log.Logger())}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	c.fileSamples = 100
	s, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Await(func() bool { return fileNumber(s) >= 3 })
	if err := s.Stop(); err != nil || len(log.Lines()) > 0 {
		t.Fatal(err, log.Lines())
	}
	files := s.Files()
	for i, path := range files {
		want := filepath.Join(dir, "x.tach")
		if i > 0 {
			want = filepath.Join(dir, fmt.Sprintf("x.%d.tach", i+1))
		}
		if path != want {
			t.Errorf("file %d is %s, want %s", i+1, path, want)
		}
	}
	if len(files) < 3 || s.Path() != files[len(files)-1] {
		t.Errorf("files %q, the last one %s", files, s.Path())
	}
	checkFiles(t, s, 1)
}

// checkFiles checks that each of a session's files has samples, a checksum and the metadata
// of its own part. Parts are numbered from first, and there is no gap in time between them.
func checkFiles(t *testing.T, s *Session, first int) {
	t.Helper()
	var end time.Time
	for i, path := range s.Files() {
		if count(t, path) == 0 {
			t.Errorf("%s has no samples", path)
		}
		r, err := reader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if present, err := r.VerifyChecksum(); !present || err != nil {
			t.Errorf("%s: checksum present: %v, error %v", path, present, err)
		}
		m, err := r.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		d := m.Session
		if d.Part != first+i || !d.SessionStart.Equal(s.start) || d.Start.UnixMicro() != int64(r.Header().Start) || d.Error != "" {
			t.Errorf("%s: part %d of the session at %v, start %v, error %q", path, d.Part, d.SessionStart, d.Start, d.Error)
		}
		if d.Samples != int64(r.Header().Samples) {
			t.Errorf("%s: %d of %d samples in %v", path, d.Samples, r.Header().Samples, d.Duration)
		}
		if i > 0 && end.UnixMicro() != d.Start.UnixMicro() {
			t.Errorf("%s starts at %v, the one before ends at %v", path, d.Start, end)
		}
		end = d.Start.Add(d.Duration)
		if len(m.Goroutines) == 0 {
			t.Errorf("%s has no goroutines in its metadata", path)
		}
		for _, g := range m.Goroutines {
			if g.First > g.Last || g.Last > uint64(d.Duration.Microseconds()) {
				t.Errorf("%s: goroutine %d from %d to %d", path, g.ID, g.First, g.Last)
			}
		}
	}
}
