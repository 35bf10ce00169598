//go:build unix

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A pipe without a writer must not stop the caller.
func TestOpenPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), "it is a pipe") {
		t.Errorf("%v", err)
	}
}

// A stream that is open is read, also if its writer has ended; other pipes and folders are not.
func TestOpenInput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("12345"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if b, err := ReadInput(fmt.Sprint("/dev/fd/", r.Fd()), 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "it is a pipe, not a regular file; standard input", dir: "it is a folder, not a regular file$", "/dev/zero": "it is a device"} {
		if _, _, err := OpenInput(path); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := ReadInput("/dev/fd/../zero", 5); err == nil {
		t.Errorf("%q is read", b)
	}
}
