package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, link, device := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "device")
	testenv.OK(t, os.WriteFile(file, []byte("12345"), 0o600))
	for name, target := range map[string]string{link: file, device: os.DevNull} {
		testenv.OK(t, os.Symlink(target, name))
	}
	for _, path := range []string{file, link} {
		if f, fi, err := Open(path); err != nil || fi.Size() != 5 {
			t.Errorf("%s: %v, %v", path, fi, err)
		} else {
			f.Close()
		}
	}
	for path, want := range map[string]string{dir: "it is a folder", device: "it is a device", filepath.Join(dir, "none"): "no such file"} {
		if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if b, err := Read(file, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := Read(file, 4); !errors.Is(err, ErrTooLarge) || b != nil {
		t.Errorf("%q, %v", b, err)
	}
}
