//go:build peers

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// TestPeerReleaseCommand installs the command as it is released. It finds the source of the library that gotach test needs.
func TestPeerReleaseCommand(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	upstream := strings.TrimSpace(run(t, root(t), nil, "go", "env", "GOPROXY"))
	env := append(proxy(t, t.TempDir(), upstream), "GOBIN="+bin)
	run(t, dir, env, "go", "install", "-trimpath", modulePath+"/cmd/gotach@"+released(t))
	gotach := filepath.Join(bin, "gotach")
	if got := run(t, dir, nil, gotach, "--version"); !strings.HasPrefix(got, "gotach "+released(t)+" ") {
		t.Errorf("its version is %q", got)
	}
	for name, text := range map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.25\n",
		"m_test.go": "package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestWait(*testing.T) { time.Sleep(50 * time.Millisecond) }\n",
	} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run(t, dir, env, gotach, "test", "./...")
	r := testenv.Must(reader.Open(filepath.Join(dir, "test.tach")))
	defer r.Close()
	if r.Header().Samples == 0 {
		t.Error("gotach test has no samples")
	}
}
