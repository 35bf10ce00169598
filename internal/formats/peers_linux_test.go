//go:build peers

package formats

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// Another user's link is not followed.
func TestPeerReplaceForeignLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	testenv.OK(t, errors.Join(os.WriteFile(target, []byte("precious"), 0o600), os.Symlink("target", link)))
	if err := os.Lchown(link, 12345, -1); err != nil {
		testenv.Skip(t, "no another user's link: only root may make one: "+err.Error())
	}
	err := Replace(link, func(io.Writer) error { return nil })
	testenv.Fails(t, "another user's link", err, "another user")
	if b := testenv.Must(os.ReadFile(target)); string(b) != "precious" {
		t.Errorf("the target is now %q", b)
	}
}
