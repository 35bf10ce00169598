// Command syscalls runs a session of the source that its argument names, under a policy that ends the program
// at every system call that is not listed. At its end it prints "ok".
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/syscalls"
)

func confine(lists ...[]syscalls.Call) {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // seccomp_data.nr
	for _, list := range lists {
		for _, c := range list {
			filter = append(filter,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(c.Number), Jf: 1},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		}
	}
	// A trap is a signal that ends the program, and Go prints the call's number.
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRAP})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		panic(e)
	}
}

// openFiles returns what goroutines can wait for: a pipe and one end of a connection.
func openFiles() []*os.File {
	r, _, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return []*os.File{r, os.NewFile(uintptr(fds[0]), "connection")}
}

func main() {
	lists := [][]syscalls.Call{syscalls.Runtime, syscalls.Session}
	if os.Args[1] == "native" {
		lists = append(lists, syscalls.Native)
	}
	if os.Args[2] != "" { // a call to leave out of the lists
		for i, list := range lists {
			for j, c := range list {
				if c.Name == os.Args[2] {
					lists[i] = append(list[:j:j], list[j+1:]...)
				}
			}
		}
	}
	waitsFor := openFiles()
	confine(lists...)
	s := profiler.Start()
	if s.Err() != nil || s.Stats().Source != os.Args[1] {
		fmt.Println(s.Err(), s.Stats().Source, s.Stats().Reason)
		os.Exit(1)
	}
	for _, f := range waitsFor {
		go f.Read(make([]byte, 1)) // until the end of the program
	}
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
			}
			time.Sleep(50 * time.Millisecond)
		}()
	}
	c := make(chan bool)
	go func() { all.Wait(); time.AfterFunc(1500*time.Millisecond, func() { c <- true }) }()
	<-c // wait so long that the session looks for a deadlock
	runtime.GC()
	if err := s.Stop(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ok")
}
