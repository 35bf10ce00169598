package testenv

import (
	"io"
	"iter"
	"os"
	"testing"
	"time"
)

// Count opens a file with reader.Open and counts its samples. It fails the test if a
// finished file has a journal or an unfinished file has none, or if the checksum is
// missing or wrong. This package does not import reader, whose own tests use it.
func Count[S any, R interface {
	io.Closer
	Unfinished() bool
	Samples() iter.Seq2[S, error]
	VerifyChecksum() (bool, error)
}](t testing.TB, open func(string) (R, error), path string) (n int) {
	t.Helper()
	r, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := os.Stat(path + ".journal"); (err == nil) != r.Unfinished() {
		t.Errorf("the file is unfinished: %v; its journal: %v", r.Unfinished(), err)
	}
	for _, err := range r.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if present, err := r.VerifyChecksum(); err != nil || !present {
		t.Fatal("checksum: ", present, err)
	}
	return n
}

// Metadata opens a finished file with reader.Open and returns its metadata.
func Metadata[M any, R interface {
	io.Closer
	Unfinished() bool
	Metadata() (M, error)
}](t testing.TB, open func(string) (R, error), path string) M {
	t.Helper()
	r := Must(open(path))
	defer r.Close()
	Same(t, path, r.Unfinished(), false)
	return Must(r.Metadata())
}

// Await waits until cond holds, for at most a minute.
func Await(cond func() bool) {
	for begin := time.Now(); !cond() && time.Since(begin) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
}
