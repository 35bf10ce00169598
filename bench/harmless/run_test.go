//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// An outcome is the part of a run that is compared.
type outcome struct {
	end     string            // "exit status 1", "signal: segmentation fault"
	verdict map[string]string // of each test: pass, fail, skip; "" if it has none
}

// run is one run of a test binary.
type run struct {
	outcome
	pid    int
	log    string // the file with its output
	took   time.Duration
	killed bool
}

// start runs a test binary until it ends. Its output goes to the file log.
func start(t *testing.T, s suite, p pkg, binary, log string, env ...string) run {
	t.Helper()
	args := []string{"-test.v=test2json", "-test.count=1", "-test.short", "-test.timeout=" + s.timeout.String()}
	if s.run != "" {
		args = append(args, "-test.run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	out := testenv.Must(os.Create(log))
	defer out.Close()
	cmd := exec.Command(binary, args...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = out, out
	// The environment is that of `go test`, without settings of the profiler except those in env.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PROFILE_") || strings.HasPrefix(kv, "GOTACH_") || strings.HasPrefix(kv, "GOFLAGS=")
	})
	cmd.Env = append(append(cmd.Env, "PWD="+p.dir), env...)
	begin := time.Now()
	testenv.OK(t, cmd.Start())
	r := run{pid: cmd.Process.Pid, log: log}
	// -test.timeout works only if the runtime still works. If it does not, SIGQUIT may still
	// print the stacks.
	quit := time.AfterFunc(s.timeout+30*time.Second, func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		time.Sleep(10 * time.Second)
		_ = cmd.Process.Kill()
	})
	err := cmd.Wait()
	r.killed = !quit.Stop()
	r.took = time.Since(begin)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r.end = cmd.ProcessState.String()
	r.verdict = verdicts(t, p, log)
	return r
}

// verdicts parses the output of a test binary with go tool test2json.
func verdicts(t *testing.T, p pkg, log string) map[string]string {
	t.Helper()
	in := testenv.Must(os.Open(log))
	defer in.Close()
	cmd := exec.Command("go", "tool", "test2json", "-p", p.path)
	cmd.Stdin = in
	events, err := cmd.Output()
	if err != nil {
		t.Fatalf("test2json: %v", err)
	}
	v := map[string]string{}
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("test2json: %q: %v", line, err)
		}
		switch e.Action {
		case "run":
			v[e.Test] = ""
		case "pass", "fail", "skip":
			if e.Test != "" {
				v[e.Test] = e.Action
			}
		}
	}
	return v
}

// tail returns the end of a log, after the text at the first sign of a crash in it.
func tail(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	const most = 6000
	out := ""
	for _, sign := range []string{"\nfatal error: ", "\nSIG", "\npanic: ", "\nruntime: ", "\nunexpected fault"} {
		if i := bytes.Index(b, []byte(sign)); i >= 0 {
			out += string(b[i:min(len(b), i+most)]) + "\n…\n"
			break
		}
	}
	return out + string(b[max(0, len(b)-most):])
}
