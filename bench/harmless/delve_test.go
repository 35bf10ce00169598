//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// delve is a version that knows all Go versions that the profiler supports.
const delve = "github.com/go-delve/delve/cmd/dlv@v1.27.2"

// TestPeerDelve attaches Delve to a program in a session, stops at a breakpoint twice, and detaches. The program must go on and
// end as without a session.
func TestPeerDelve(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("GOBIN", bin)
	gocmd(t, toolchain(t, t.TempDir()), bin, "install", delve)
	program := buildCase(t, false, "-ldflags=") // with DWARF
	script := write(t, filepath.Join(bin, "script"), "break b main.hit\ncontinue\nprint n\ncontinue\ngoroutines\nstack\nclear b\n")
	for _, source := range harmSources {
		t.Run(map[bool]string{true: "none", false: source}[source == ""], func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(program, "own debugged")
			cmd.Env = append(environ(), "PROFILE_SOURCE="+source, "PROFILE_RATE=1000")
			if source != "" {
				cmd.Env = append(cmd.Env, "PROFILE_OUT="+filepath.Join(dir, "x.tach"))
			}
			cmd.Stderr = os.Stderr
			end := testenv.Must(cmd.StdinPipe())
			out := bufio.NewReader(testenv.Must(cmd.StdoutPipe()))
			testenv.OK(t, cmd.Start())
			line, _ := out.ReadString('\n')
			dlv := exec.Command(filepath.Join(bin, "dlv"), "attach", strconv.Itoa(cmd.Process.Pid), "--init", script, "--allow-non-terminal-interactive=true")
			dlv.Stdin = strings.NewReader("exit\nn\n") // do not kill the program
			text, _ := dlv.CombinedOutput()
			testenv.Same(t, "stops at the breakpoint: "+string(text), strings.Count(string(text), "[b] main.hit("), 2)
			testenv.OK(t, end.Close())
			more, _ := out.ReadString('\n')
			_ = cmd.Wait()
			testenv.Same(t, "what the program prints, and its end, after "+string(text), line+more+ending(cmd.ProcessState), "ready\ndone\nexit 7")
			if source != "" {
				if got := profile(t, filepath.Join(dir, "x.tach"), source); got != "profile whole" {
					t.Error(got)
				}
			}
		})
	}
}
