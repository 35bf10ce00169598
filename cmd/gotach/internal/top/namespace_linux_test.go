//go:build peers

package top

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

// A process in another mount namespace has a file of its own at a path that a stranger's file has here.
func TestPeerMountNamespace(t *testing.T) {
	dir := t.TempDir()
	stranger := filepath.Join(dir, "app.tach")
	for _, path := range []string{stranger, stranger + ".journal"} {
		must(os.WriteFile(path, []byte("stranger"), 0o600))
	}
	c := exec.Command("sh", "-c", `mount -t tmpfs tmpfs "$0" && exec 3<>"$0/app.tach" && echo own >"$0/app.tach.journal" && echo ready && read -r _`, dir)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	in, out := testenv.Must(c.StdinPipe()), testenv.Must(c.StdoutPipe())
	if err := c.Start(); err != nil {
		testenv.Skip(t, "no namespaces: "+err.Error())
	}
	defer func() { in.Close(); _ = c.Wait() }()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		testenv.Skip(t, "nothing can be mounted in a namespace")
	}
	path := testenv.Must(openProfile(c.Process.Pid))
	text := testenv.Must(os.ReadFile(path + ".journal"))
	testenv.FailIf(t, string(text) != "own\n", "%s.journal is %q", path, text)
	f := testenv.Closes(t, testenv.Must(reader.Follow(path)))
	testenv.Same(t, "the path", f.Path(), path)
}
