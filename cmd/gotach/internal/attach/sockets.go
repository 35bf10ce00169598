//go:build linux && (amd64 || arm64)

package attach

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/tachyon"
)

// The addresses of sockets are in tables that the kernel has in /proc/PID/net, for the network namespace of the process. They have all sockets there, so they
// are read only if one has no name yet, and for at most a 50th of the time. A socket is known by its inode, which stays the same and is not used again before 2³²
// others; its descriptor may be another file by now. What the tables do not have, has no name: which path a Unix socket was dialed by, the zone of an IPv6 address,
// and a connection that was closed before they were read.

const (
	tableShare = 50
	tableEvery = 20 * time.Millisecond
	maxSockets = 64 << 20
)

// A socket is a row of a table.
type socket struct {
	inode            uint64
	network, at, to  string
	port             uint16
	end              string // the port or the path
	listens, unnamed bool   // unnamed: it is not connected, or its address is not known
	accepted         bool   // another one listens there: the kernel takes no such port for a connection that is dialed
}

// nameSockets names the sockets that have none.
func (r *recorder) nameSockets() {
	e := r.ends
	if len(e.pending) == 0 || r.now < e.next {
		return
	}
	begin := monotonic()
	found := map[uint64]socket{}
	for _, table := range [...]string{"tcp", "tcp6", "udp", "udp6", "unix"} {
		if len(found) == len(e.pending) {
			break // reading takes time although few sockets exist
		}
		if f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", r.PID, table)); err == nil {
			readTable(table, f, e.pending, found)
			_ = f.Close()
		}
	}
	for inode, d := range e.pending {
		s, ok := found[inode]
		if !ok || s.unnamed {
			continue
		}
		if d.kind, d.name = tachyon.ObjectConnection, objects.Connection(s.network, s.at, s.to, s.port, map[uint16]bool{s.port: s.accepted}); s.listens {
			d.kind, d.name = tachyon.ObjectListener, s.network+" "+s.at
		}
	}
	clear(e.pending)
	e.next = r.now + max(tableEvery, tableShare*(monotonic()-begin))
}

// readTable adds the sockets of a table with wanted inodes to those found. An inode that has different rows is not known: the path of a Unix socket may have
// line ends, and so make rows.
func readTable(table string, from io.Reader, want map[uint64]*descriptor, found map[uint64]socket) {
	lines := bufio.NewScanner(io.LimitReader(from, maxSockets))
	lines.Buffer(make([]byte, 0, 4096), 4096)
	parse := inetRow
	if table == "unix" {
		parse = unixRow
	}
	listening := map[string]bool{} // ends at which sockets listen
	var mine []uint64
	previous := uint64(0)
	for title := true; lines.Scan(); title = false {
		s, ok := parse(table, lines.Text())
		if !ok {
			if !title && table == "unix" { // the row before has only a part of its path
				found[previous] = socket{unnamed: true}
			}
			continue
		}
		previous = s.inode
		if s.listens {
			listening[s.end] = true
		}
		if _, wanted := want[s.inode]; s.inode == 0 || !wanted {
			continue
		}
		if other, again := found[s.inode]; again && other != s {
			s.unnamed = true
		}
		found[s.inode] = s
		mine = append(mine, s.inode)
	}
	for _, inode := range mine {
		s := found[inode]
		s.accepted = listening[s.end]
		if table == "unix" && !s.accepted { // the program may have dialed
			s.unnamed = true
		}
		found[inode] = s
	}
	delete(found, 0)
}

// States of sockets in the tables.
const (
	established, synSent, closed, listen = 1, 2, 7, 10 // of IP
	unconnected, connected               = 1, 3        // of Unix sockets
	datagram, acceptFlag                 = 2, 0x10000
)

// inetRow parses a row of a table of tcp or udp.
func inetRow(table, line string) (s socket, ok bool) {
	f := strings.Fields(line) // sl local_address rem_address st queues timer retrnsmt uid timeout inode
	if len(f) < 10 {
		return s, false
	}
	at, ok1 := inetAddress(f[1])
	to, ok2 := inetAddress(f[2])
	state, ok3 := number(f[3], 16, 8)
	if s.inode, ok = number(f[9], 10, 64); !ok || !ok1 || !ok2 || !ok3 {
		return s, false
	}
	s.network = strings.TrimSuffix(table, "6")
	s.at, s.to, s.port, s.end = inetName(at), inetName(to), at.Port(), strconv.Itoa(int(at.Port()))
	s.listens = state == listen || s.network == "udp" && state == closed // anyone may send to it
	far := to.Addr()
	if s.listens {
		far = at.Addr()
	}
	s.unnamed = !s.listens && (state == synSent || state == closed) || far.Is6() && (far.IsLinkLocalUnicast() || far.IsLinkLocalMulticast())
	return s, true
}

// number parses one without sign.
func number(text string, base, bits int) (uint64, bool) {
	n, err := strconv.ParseUint(text, base, bits)
	return n, err == nil
}

// inetAddress parses an address of a table: words in the order of bytes of this machine, and a port.
func inetAddress(text string) (a netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(text, ":")
	p, ok := number(port, 16, 16)
	b, err := hex.DecodeString(host)
	if !ok || err != nil || len(port) != 4 || len(b)%4 != 0 {
		return a, false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(p)), ok
}

// inetName returns host:port. An address that means every one of the machine is left out.
func inetName(a netip.AddrPort) string {
	if a.Addr().IsUnspecified() {
		return fmt.Sprintf(":%d", a.Port())
	}
	return a.String()
}

// unixRow parses a row of the table of Unix sockets. It does not have the other end.
func unixRow(_, line string) (s socket, ok bool) {
	var f [7]string // Num: RefCount Protocol Flags Type St Inode Path
	for i := range f {
		f[i], line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	flags, ok1 := number(f[3], 16, 64)
	kind, ok2 := number(f[4], 16, 64)
	state, ok3 := number(f[5], 16, 64)
	if s.inode, ok = number(f[6], 10, 64); !ok || !ok1 || !ok2 || !ok3 || !strings.HasSuffix(f[0], ":") {
		return s, false
	}
	s.network, s.at, s.end = "unix", line, line
	s.listens = flags&acceptFlag != 0 || kind == datagram && state == unconnected
	s.unnamed = s.at == "" || !s.listens && (kind == datagram || state != connected)
	return s, true
}
