package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func dialed(c net.Conn)       { read(c) }
func accepted(c net.Conn)     { read(c) }
func dialedUnix(c net.Conn)   { read(c) }
func acceptedUnix(c net.Conn) { read(c) }
func datagrams(c net.Conn)    { read(c) }
func dialedUDP(c net.Conn)    { read(c) }
func pipe(f *os.File)         { read(f) }
func full(f *os.File)         { _, _ = f.Write(make([]byte, 1<<20)) }
func read(f io.Reader)        { _, _ = f.Read(make([]byte, 1)) }

func listens(l net.Listener)     { _, _ = l.Accept() }
func listensUnix(l net.Listener) { _, _ = l.Accept() }

// first and second dial one server each, again and again: descriptors and pollDescs are used for the other's connections soon.
func first(address string)  { dials(address) }
func second(address string) { dials(address) }

func dials(address string) {
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			read(c)
			_ = c.Close()
		}
	}
}

func serve(l net.Listener) {
	for {
		c := must(l.Accept())
		go func() {
			time.Sleep(20 * time.Millisecond)
			_, _ = c.Write([]byte{1})
			_ = c.Close()
		}()
	}
}

// connect has goroutines wait for both ends of a connection and for the next one.
func connect(network, address string, dialed, accepted func(net.Conn), listens func(net.Listener)) string {
	l := must(net.Listen(network, address))
	c := must(net.Dial(network, l.Addr().String()))
	go dialed(c)
	go accepted(must(l.Accept()))
	go listens(l)
	return l.Addr().String()
}

// farEnds has goroutines that wait for connections and files, each kind in a function of its own, and prints the names of what they wait for. It
// returns what must stay open.
func farEnds(dir string) []*os.File {
	one, two := must(net.Listen("tcp", "127.0.0.1:0")), must(net.Listen("tcp", "127.0.0.1:0"))
	tcp := connect("tcp", "127.0.0.1:0", dialed, accepted, listens)
	socket := connect("unix", filepath.Join(dir, "a socket"), dialedUnix, acceptedUnix, listensUnix)
	udp := must(net.ListenPacket("udp", "127.0.0.1:0")).(*net.UDPConn)
	go datagrams(udp)
	go dialedUDP(must(net.Dial("udp", udp.LocalAddr().String())))
	r, w, err := os.Pipe()
	must(w, err)
	go pipe(r)
	r2, w2, err := os.Pipe()
	must(w2, err)
	go full(w2)
	for range 4 {
		go first(one.Addr().String())
		go second(two.Addr().String())
	}
	go serve(one)
	go serve(two)
	_, port := must2(net.SplitHostPort(tcp))
	for _, line := range []string{
		"dialed connection tcp " + tcp, "accepted connection tcp :" + port + " from 127.0.0.1", "listens listener tcp " + tcp,
		"acceptedUnix connection unix " + socket + " from a client", "listensUnix listener unix " + socket,
		"datagrams listener udp " + udp.LocalAddr().String(), "dialedUDP connection udp " + udp.LocalAddr().String(),
		"pipe pipe " + name(r), "full pipe " + name(w2),
		"first connection tcp " + one.Addr().String(), "second connection tcp " + two.Addr().String(),
	} {
		fmt.Println(line)
	}
	return []*os.File{r2, w} // the collector would close the other ends of the pipes
}

func must2(a, b string, err error) (string, string) { must(a, err); return a, b }

// name returns how a pipe is called.
func name(f *os.File) (name string) {
	_ = must(f.SyscallConn()).Control(func(fd uintptr) { name = must(os.Readlink(fmt.Sprint("/proc/self/fd/", fd))) })
	var inode uint64
	must(fmt.Sscanf(name, "pipe:[%d]", &inode))
	return fmt.Sprint("pipe ", inode)
}
