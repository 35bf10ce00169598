package files

import (
	"os"
	"path/filepath"
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
		f, fi, err := Open(path)
		testenv.OK(t, err)
		testenv.Same(t, path, fi.Size(), 5)
		testenv.OK(t, f.Close())
	}
	for path, want := range map[string]string{dir: "it is a folder", device: "it is a device", filepath.Join(dir, "none"): "no such file"} {
		_, _, err := Open(path)
		testenv.Fails(t, path, err, want)
	}
}
