package analyze

import (
	"os"
	"path/filepath"
	"testing"
)

// A name that is relative, as with -trimpath, is not that of a file in the present folder.
func TestReadSource(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("main.go", []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSource("main.go"); err == nil {
		t.Error("a relative name is read")
	}
	if text, err := readSource(filepath.Join(dir, "main.go")); err != nil || string(text) != "package main\n" {
		t.Errorf("%q, %v", text, err)
	}
}
