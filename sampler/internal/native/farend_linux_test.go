//go:build amd64 || arm64

package native

import (
	"net"
	"testing"
	"unsafe"

	"github.com/gotach/profiler/internal/testenv"
)

// A port on which the program receives datagrams is another one than that of TCP: a connection from there is to its peer.
func TestPortOfDatagrams(t *testing.T) {
	to := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer to.Close()
	for range 100 {
		packets := testenv.Must(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))
		defer packets.Close()
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: packets.LocalAddr().(*net.UDPAddr).Port}
		c, err := net.DialTCP("tcp", from, to.Addr().(*net.TCPAddr))
		if err != nil {
			continue // somebody has this port of TCP
		}
		defer c.Close()
		seq, ends := uint64(7), newDescriptors(nil)
		var got farEnd
		ask := func(fd uintptr) { got, _ = ends.ask(uintptr(unsafe.Pointer(&seq)), seq, int(fd)) }
		testenv.OK(t, testenv.Must(packets.SyscallConn()).Control(ask))
		testenv.OK(t, testenv.Must(c.SyscallConn()).Control(ask))
		if want := "tcp " + to.Addr().String(); got.name != want {
			t.Errorf("%q, want %q", got.name, want)
		}
		return
	}
	t.Error("no port is free in TCP and UDP")
}
