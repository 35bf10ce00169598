//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLinksWithoutOptimisation links a program on both architectures without optimisation, as for a
// debugger. The linker bounds the stack of the handler's functions, which is largest then.
func TestLinksWithoutOptimisation(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.Command("go", "build", "-gcflags=all=-N -l", "-o", filepath.Join(t.TempDir(), "prog"), "./testdata/prog")
		cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", arch, err, out)
		}
	}
}
