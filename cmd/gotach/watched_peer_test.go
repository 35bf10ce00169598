//go:build peers

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/httpprof"
	"github.com/gotach/profiler/internal/testenv"
)

func init() { programs["watched"] = watched }

// watched OUT is a program that writes a profile and serves httpprof.Handler. It prints its address.
func watched() {
	defer profiler.Start(profiler.Output(os.Args[1])).Stop()
	lock := make(chan struct{}, 1)
	for range 3 {
		go busy(lock)
	}
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(l.Addr())
	go http.Serve(l, httpprof.Handler())
	var b [1]byte
	os.Stdin.Read(b[:]) // until the test ends
}

func busy(lock chan struct{}) {
	for {
		lock <- struct{}{}
		hash(5)
		<-lock
		time.Sleep(time.Millisecond)
	}
}

// startWatched starts that program. It ends when stop is called.
func startWatched(t *testing.T, out string) (pid int, address string, stop func()) {
	t.Helper()
	cmd := testCommand(t, "watched", out)
	cmd.Stderr = os.Stderr
	stdin, stdout := testenv.Must(cmd.StdinPipe()), testenv.Must(cmd.StdoutPipe())
	must(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	testenv.Must(fmt.Fscan(stdout, &address))
	return cmd.Process.Pid, address, func() {
		t.Helper()
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		must(cmd.Wait())
	}
}
