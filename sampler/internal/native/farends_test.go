//go:build linux && (amd64 || arm64)

package native

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
	"golang.org/x/sys/unix"
)

// ends has goroutines that wait for files and connections, and what each waits for. What they do not wait for, they leave open to the
// end of the process.
type ends struct {
	t    *testing.T
	want map[uint64]string
}

// wait starts a goroutine that waits.
func (e *ends) wait(want string, wait func()) { one(e.want, want, wait) }

// read starts a goroutine that reads what never comes.
func (e *ends) read(want string, from interface{ Read([]byte) (int, error) }) {
	e.wait(want, func() { from.Read(make([]byte, 1)) })
}

// connect lets both ends of a connection to a listener wait, and its listener.
func (e *ends) connect(l net.Listener, kind, client, server string) {
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	testenv.OK(e.t, err)
	e.read("connection "+client, c)
	e.read("connection "+server, <-accepted)
	e.wait("listener "+kind, func() { l.Accept() })
}

func (e *ends) listen(network, address string) (net.Listener, string) {
	l, err := net.Listen(network, address)
	testenv.OK(e.t, err)
	a := l.Addr().String()
	return l, a[strings.LastIndexByte(a, ':')+1:]
}

// TestFarEnds compares what goroutines in [IO wait] wait for with the truth, of each kind: who has dialed waits for the address, who has
// accepted for the host at the other end. The second session walks the goroutines only once, because a collection has stamped them.
func TestFarEnds(t *testing.T) {
	if !alone(t) {
		return // the goroutines do not end
	}
	e := &ends{t, map[uint64]string{}}
	l, port := e.listen("tcp", "127.0.0.1:0")
	e.connect(l, "tcp 127.0.0.1:"+port, "tcp 127.0.0.1:"+port, "tcp :"+port+" from 127.0.0.1")
	l, port = e.listen("tcp4", ":0")
	e.connect(l, "tcp :"+port, "tcp 127.0.0.1:"+port, "tcp :"+port+" from 127.0.0.1")
	l, port = e.listen("tcp6", "[::1]:0")
	e.connect(l, "tcp [::1]:"+port, "tcp [::1]:"+port, "tcp :"+port+" from [::1]")
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	l, _ = e.listen("unix", path)
	e.connect(l, "unix "+path, "unix "+path, "unix "+path+" from a client")
	abstract := fmt.Sprintf("@gotach-%d", os.Getpid())
	l, _ = e.listen("unix", abstract)
	e.connect(l, "unix "+abstract, "unix "+abstract, "unix "+abstract+" from a client")

	u := testenv.Must(net.ListenPacket("udp", "127.0.0.1:0"))
	e.wait("listener udp "+u.LocalAddr().String(), func() { u.ReadFrom(make([]byte, 1)) })
	c := testenv.Must(net.Dial("udp", u.LocalAddr().String()))
	e.read("connection udp "+u.LocalAddr().String(), c)

	r, w := testenv.Must2(os.Pipe())
	e.read("pipe "+pipeName(t, r), r)
	r2, w2 := testenv.Must2(os.Pipe())
	e.wait("pipe "+pipeName(t, r2), func() { w2.Write(make([]byte, 1<<20)) })
	fifo := filepath.Join(dir, "fifo")
	testenv.OK(t, unix.Mkfifo(fifo, 0o600))
	f := testenv.Must(os.OpenFile(fifo, os.O_RDWR, 0))
	e.read("file file "+fifo, f)
	fd := testenv.Must(unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC))
	event := os.NewFile(uintptr(fd), "event")
	e.wait("file eventfd", func() { event.Read(make([]byte, 8)) })
	pair := testenv.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
	e.read("connection unix", os.NewFile(uintptr(pair[0]), "pair"))

	awaitObjects(t, func(*taken) {}, func(latest map[uint64]taken) (wrong []string) {
		for id, want := range e.want {
			got := "no object"
			if o := latest[id].object; o != nil {
				got = o.Kind + " " + o.Name
			}
			if got != want {
				wrong = append(wrong, fmt.Sprintf("waits for %q, want %q: %v", got, want, latest[id].stack))
			}
		}
		return wrong
	})
	runtime.KeepAlive([]any{r, w, r2, w2, f, event})
}

// pipeName returns how a pipe is called, without making its descriptor one that blocks.
func pipeName(t *testing.T, f *os.File) string {
	raw, err := f.SyscallConn()
	testenv.OK(t, err)
	var st unix.Stat_t
	testenv.OK(t, raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }))
	testenv.OK(t, err)
	return fmt.Sprint("pipe ", st.Ino)
}

// TestFarEndsReused opens and closes connections to two servers as fast as it can, so that descriptors and pollDescs are used again all the time.
// A goroutine dials one server only: no wait may name the other one. One goroutine of each server keeps a connection until it has a name. Stacks grow, connections are closed while goroutines wait for them, and the
// collector runs: no visit may fault.
func TestFarEndsReused(t *testing.T) {
	var stop atomic.Bool
	var all sync.WaitGroup
	var mu sync.Mutex
	want := map[uint64]string{}       // by goroutine
	saw := map[uint64]chan struct{}{} // of those that keep their connections: one has a name
	end := make(chan struct{})
	serve := func(l net.Listener) {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			all.Go(func() {
				defer c.Close()
				c.Read(make([]byte, 1))
				c.Write(make([]byte, 1))
				c.Read(make([]byte, 1))
			})
		}
	}
	dial := func(l net.Listener, i int) {
		named := make(chan struct{}, 1)
		mu.Lock()
		want[currentGoid()] = "tcp " + l.Addr().String()
		saw[currentGoid()] = named
		mu.Unlock()
		defer l.Close()
		for n := 0; !stop.Load(); n++ {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				continue // on a busy machine the kernel may have no port, or reset the connection
			}
			c.(*net.TCPConn).SetLinger(0) // its port is free at once
			switch i {
			case 0: // closed while somebody waits for it
				time.AfterFunc(time.Duration(n%200)*time.Microsecond, func() { c.Close() })
			case 1:
				go func() {
					select {
					case <-named:
					case <-end:
					}
					c.Close()
				}()
			default:
				c.Write(make([]byte, 1))
			}
			deepRead(n%64, c)
			c.Close()
		}
	}
	for range 2 {
		l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
		all.Go(func() { serve(l) })
		for i := range 4 {
			all.Go(func() { dial(l, i) })
		}
	}
	all.Go(func() {
		for !stop.Load() {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	})
	named, seen := 0, map[string]bool{}
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return named > 10 && len(seen) == 2
	}
	watch(t, source.Config{WaitFrames: true, Rate: 10000, Budget: 50}, func(s *taken) {
		mu.Lock()
		defer mu.Unlock()
		w := want[s.goroutine]
		if w == "" || s.object == nil || s.stack[0].Func != "[IO wait]" {
			return
		}
		named++
		seen[s.object.Name] = true
		testenv.Same(t, "what a goroutine that dials waits for", s.object.Kind+" "+s.object.Name, tachyon.ObjectConnection+" "+w)
		select {
		case saw[s.goroutine] <- struct{}{}:
		default:
		}
	}, func() { testenv.Await(enough) })
	stop.Store(true)
	close(end)
	testenv.Same(t, "enough waits have names", enough(), true)
	all.Wait()
}

// deepRead reads from a connection in a stack of n more frames.
//
//go:noinline
func deepRead(n int, c net.Conn) byte {
	var room [512]byte
	if n > 0 {
		return deepRead(n-1, c) + room[n]
	}
	c.Read(room[:1])
	return room[0]
}

// TestPollPages reads only in pages that are known: nothing else may be followed.
func TestPollPages(t *testing.T) {
	memory := testenv.Must(mem.Map(pollSlots*8 + 8192))
	defer unix.Munmap(memory)
	s := &shared{polls: set{memory.Addr(), pollSlots}}
	s.Off = goruntime.Layouts["go1.27"].Offsets
	page := memory.Addr() + pollSlots*8
	stack, out, p, g := page+4096, page+5120, uint64(page)+128, uint64(page)
	mem.Store64(uintptr(p)+s.Off.PollRG, g)
	mem.Store64(uintptr(p)+s.Off.PollFD, 7)
	mem.Store64(uintptr(p)+s.Off.PollFDSeq, 70)
	r := rest{sp: stack, hi: stack + 64}
	visit := func(word, at uint64) string {
		mem.Store64(stack+uintptr(at), word)
		s.pollAt = at
		var got []uint64
		for i := range s.pollDesc(uintptr(g), out, r.pollWord(s), s.isPoll(r.pollWord(s))) {
			got = append(got, mem.Load64(out+uintptr(i)*8))
		}
		return fmt.Sprint(got)
	}
	known := fmt.Sprint([]uint64{p, 7, 70})
	testenv.Same(t, "a page that is not known", visit(p, 16), fmt.Sprint([]uint64{p}))
	for _, word := range []uint64{1, 64, 4096, 1 << 40, ^uint64(0), p + 8} { // none of them may be followed
		s.addPoll(1 << 30)
		testenv.Same(t, "no address", visit(word, 16), fmt.Sprint([]uint64{word}))
	}
	testenv.Same(t, "nothing", visit(0, 16), "[]")
	s.addPoll(p)
	testenv.Same(t, "a known page", visit(p, 16), known)
	testenv.Same(t, "beyond the stack", visit(p, 64), "[]")
	mem.Store64(uintptr(p)+s.Off.PollRG, 0)
	testenv.Same(t, "nobody waits", visit(p, 16), "[]")
	mem.Store64(uintptr(p)+s.Off.PollWG, g)
	testenv.Same(t, "waits to write", visit(p, 16), known)
	for i := range uint64(2 * pollSlots) {
		s.addPoll(1<<40 + i<<12)
	}
	testenv.Same(t, "no room for all pages", s.pollFull, 1)
	testenv.Same(t, "no room", visit(1<<50, 16), "[]")
	testenv.Same(t, "a page from before", visit(p, 16), known)
}

// TestSocketAddress writes addresses as package net does.
func TestSocketAddress(t *testing.T) {
	for _, ip := range []string{"10.2.3.4", "255.255.255.255", "::1", "2001:db8::1", "2001:db8:0:1:1:1:1:1", "2001:0:0:1::1", "fe80::", "1::", "::ffff:10.0.0.1", "1:0:0:2::3", "::2:0:0:1", "1:2:3:4:5:6:7:8"} {
		a := net.TCPAddr{IP: net.ParseIP(ip), Port: 5432}
		s := make([]byte, unix.SizeofSockaddrInet6)
		binary.NativeEndian.PutUint16(s, unix.AF_INET6)
		binary.BigEndian.PutUint16(s[2:], 5432)
		copy(s[8:], a.IP.To16())
		if v4 := a.IP.To4(); v4 != nil && !strings.Contains(ip, ":") {
			s = s[:unix.SizeofSockaddrInet4]
			binary.NativeEndian.PutUint16(s, unix.AF_INET)
			copy(s[4:], v4)
		}
		network, got, port := socketAddress(s, unix.SOCK_STREAM)
		testenv.Prints(t, ip, "tcp "+a.String()+" 5432", network, got, port)
	}
}

// A port on which the program receives datagrams is another one than that of TCP: a connection from there is to its peer.
func TestPortOfDatagrams(t *testing.T) {
	to := testenv.Closes(t, testenv.Must(net.Listen("tcp", "127.0.0.1:0")))
	for range 100 {
		packets := testenv.Closes(t, testenv.Must(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})))
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: packets.LocalAddr().(*net.UDPAddr).Port}
		c, err := net.DialTCP("tcp", from, to.Addr().(*net.TCPAddr))
		if err != nil {
			continue // somebody has this port of TCP
		}
		defer c.Close()
		seq, ends := uint64(7), newDescriptors()
		var got farEnd
		ask := func(fd uintptr) { got, _ = ends.ask(uintptr(unsafe.Pointer(&seq)), seq, int(fd)) }
		testenv.OK(t, testenv.Must(packets.SyscallConn()).Control(ask))
		testenv.OK(t, testenv.Must(c.SyscallConn()).Control(ask))
		testenv.Same(t, "far end", got.name, "tcp "+to.Addr().String())
		return
	}
	t.Error("no port is free in TCP and UDP")
}
