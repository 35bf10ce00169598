// Package servers starts databases for tests.
package servers

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// Postgres starts a PostgreSQL with an empty database, on a Unix socket only, and returns its URL.
// It stops it when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	// Debian does not put PostgreSQL's own programs on PATH.
	initdb := ""
	if list, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); err == nil && len(list) > 0 {
		initdb = list[len(list)-1]
	} else {
		initdb = testenv.Command(t, "initdb", "apt-get install postgresql")
	}
	// Not t.TempDir: only its owner may enter it, and a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	var as *syscall.Credential
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		as = userOf(t, "postgres")
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	create := exec.Command(initdb, "-D", data, "-U", "gotach", "--auth=trust", "--no-sync", "--locale=C")
	create.Dir, create.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := exec.Command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	serve(t, server, "unix", filepath.Join(dir, ".s.PGSQL.5432"), syscall.SIGQUIT)
	return "postgres:///postgres?" + url.Values{"host": {dir}, "user": {"gotach"}}.Encode()
}

// Redis starts an empty Redis on a random port of 127.0.0.1 and returns its address. It stops it
// when the test ends.
func Redis(t testing.TB) string {
	t.Helper()
	program := testenv.Command(t, "redis-server", "apt-get install redis-server")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(program, "--bind", "127.0.0.1", "--port", strconv.Itoa(address.Port), "--save", "", "--appendonly", "no")
	server.Dir, server.SysProcAttr = t.TempDir(), &syscall.SysProcAttr{}
	serve(t, server, "tcp", address.String(), syscall.SIGTERM)
	return address.String()
}

func userOf(t testing.TB, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// serve starts a server and waits until it answers. The signal stops it when the test ends.
func serve(t testing.TB, server *exec.Cmd, network, address string, stop syscall.Signal) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	server.Stdout, server.Stderr = log, log
	// The server also ends if the test is killed: when the thread that started it has ended.
	server.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait()
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(stop)
		<-ended
		_ = log.Close()
	})
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial(network, address)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-ended:
		default:
			if time.Since(begin) < time.Minute {
				continue
			}
		}
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%s does not answer at %s: %v\n%s", server.Path, address, err, text)
	}
}
