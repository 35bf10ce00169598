//go:build peers

package fleet

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// kubectl-validate accepts the manifests of docs/deploy, and refuses copies with a mistake.
func TestPeerManifests(t *testing.T) {
	testenv.Night(t, "kubectl-validate is large")
	validate := testenv.KubectlValidate(t)
	manifests := testenv.Must(os.ReadFile("../../../../docs/deploy/kubernetes.yaml"))
	path := filepath.Join(t.TempDir(), "kubernetes.yaml")
	check := func(text []byte, version string) (string, error) {
		t.Helper()
		testenv.OK(t, os.WriteFile(path, text, 0o600))
		out, err := exec.Command(validate, "--version", version, path).CombinedOutput()
		return string(out), err
	}
	for _, version := range []string{"1.29", "1.30"} { // 1.29 is the oldest that docs/deploy.md names
		if out, err := check(manifests, version); err != nil {
			t.Errorf("Kubernetes %s: %v\n%s", version, err, out)
		}
	}
	for _, mistake := range []struct{ old, new, want string }{
		{"restartPolicy: Always", "restartPolcy: Always", "restartPolcy"},
		{"replicas: 3", "replicas: three", "spec.replicas"},
		{"  selector:\n    matchLabels: {app: shop}\n", "", "spec.selector"},
		{"stringData:", "stringdata:", "stringdata"},
	} {
		if bytes.Count(manifests, []byte(mistake.old)) != 1 {
			t.Errorf("the manifests do not have %q once", mistake.old)
			continue
		}
		out, err := check(bytes.Replace(manifests, []byte(mistake.old), []byte(mistake.new), 1), "1.30")
		if err == nil || !strings.Contains(out, mistake.want) {
			t.Errorf("with %q for %q: %v, want a message with %q:\n%s", mistake.new, mistake.old, err, mistake.want, out)
		}
	}
}
