//go:build linux && (amd64 || arm64)

package attach

import (
	"bufio"
	"cmp"
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

// Which file or connection a goroutine in [IO wait] waits for. As in the native source
// (sampler/internal/native/pollwaits.go), the goroutine has the address of a runtime.pollDesc on
// its stack, and the pollDesc has the goroutine's. Its descriptor is open while somebody waits for
// it, so what the link of it says counts if the goroutine waits in the same way before and after.

const (
	pollReach      = 768 // a pollDesc's address lies less than so far above the stack pointer
	pollAlign      = 64
	maxGuesses     = 1 << 14 // words that are followed to find a pollDesc and are none
	maxDescriptors = 1 << 16 // that are remembered; then all are asked for again
)

// farEnds has the open files that goroutines have waited for.
type farEnds struct {
	at      int             // bytes above the stack pointer at which a pollDesc was found last
	pages   map[uint64]bool // that have pollDescs: the runtime never unmaps them
	guesses int
	known   map[uint64]*descriptor // by the address of the pollDesc
	pending map[uint64]*descriptor // sockets that have no name yet, by inode
	next    time.Duration          // when the kernel's tables may be read again
}

// use is one use of a pollDesc.
type use struct{ fd, seq uint64 }

// descriptor is what was found of a use.
type descriptor struct {
	use
	inode      uint64 // of a socket; 0: it is none
	kind, name string // "": not known
}

// pollDesc returns the address of the pollDesc of the goroutine at g, given its stack, 0 if there
// is none.
func (p *Process) pollDesc(g uint64, stack []byte) uint64 {
	e, l := p.ends, p.program.layout
	b := make([]byte, pollAlign)
	n := min(len(stack), pollReach) &^ 7
	for i := 0; i < n; i += 8 {
		at := (e.at + i) % n // first where the last one was
		a := le.Uint64(stack[at:])
		switch {
		case a < 4096 || a%pollAlign != 0 || a>>56 != 0:
			continue
		case e.pages[a>>12] && at == e.at:
			return a
		case e.guesses >= maxGuesses || p.read(a, b) != nil || le.Uint64(b[l.PollRG:]) != g && le.Uint64(b[l.PollWG:]) != g:
			e.guesses++
			continue
		}
		if len(e.pages) >= maxDescriptors {
			clear(e.pages)
		}
		e.at, e.pages[a>>12] = at, true
		return a
	}
	return 0
}

// uses reads the pollDescs of goroutines, given by their places in the list. It calls each for
// those that have waited for theirs since their stack was read.
func (p *Process) uses(list []walk, left []int, each func(w *walk, i int, u use)) {
	l := p.program.layout
	_ = p.together(list, left, func(i int) (uint64, int) { return list[i].poll, pollAlign }, func(i int, h head, b []byte) { // what cannot be read is not known
		w, g := &list[i], p.gs[list[i].index]
		if b != nil && h.motion == w.head.motion && (le.Uint64(b[l.PollRG:]) == g || le.Uint64(b[l.PollWG:]) == g) {
			each(w, i, use{le.Uint64(b[l.PollFD:]), le.Uint64(b[l.PollFDSeq:])})
		}
	})
}

// farEndsOf finds the descriptors for which goroutines wait, and what they are.
func (r *recorder) farEndsOf(list []walk) {
	e := r.ends
	var left, fresh []int
	for i := range list {
		if list[i].poll != 0 {
			left = append(left, i)
		}
	}
	r.uses(list, left, func(w *walk, i int, u use) {
		d := e.known[w.poll]
		if d != nil && d.use == u {
			w.file = d
			r.wants(d)
		} else if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", r.PID, u.fd)); err == nil {
			w.asked, fresh = describe(u, link), append(fresh, i)
		}
	})
	r.uses(list, fresh, func(w *walk, _ int, u use) {
		if u != w.asked.use {
			return
		}
		if len(e.known) >= maxDescriptors {
			clear(e.known)
		}
		w.file, e.known[w.poll] = w.asked, w.asked
		r.wants(w.file)
	})
	r.nameSockets()
}

// describe returns what the link of a descriptor says of a use.
func describe(u use, link string) *descriptor {
	d := &descriptor{use: u}
	d.kind, d.name = objects.File(link)
	_, _ = fmt.Sscanf(link, "socket:[%d]", &d.inode)
	return d
}

// wants asks for the name of a descriptor if it is a socket that has none.
func (r *recorder) wants(d *descriptor) {
	if d.inode != 0 && d.kind == "" && len(r.ends.pending) < maxDescriptors {
		r.ends.pending[d.inode] = d
	}
}

// The addresses of sockets are in tables that the kernel has in /proc/PID/net, for the network
// namespace of the process. They have all sockets there, so they are read only if one has no name
// yet, and for at most a 50th of the time. A socket is known by its inode, which stays the same and
// is not used again before 2³² others; its descriptor may be another file by now. What the tables
// do not have, has no name: which path a Unix socket was dialed by, the zone of an IPv6 address,
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
	end              string // the port or the path
	listens, unnamed bool   // unnamed: it is not connected, or its address is not known
	accepted         bool   // another one listens there: the kernel takes no such port for a connection that is dialed
}

// nameSockets names the sockets that have none.
func (r *recorder) nameSockets() {
	e := r.ends
	if e == nil || len(e.pending) == 0 || r.now < e.next {
		return
	}
	begin := monotonic()
	for _, table := range [...]string{"tcp", "tcp6", "udp", "udp6", "unix"} {
		if len(e.pending) == 0 {
			break // reading takes time although few sockets exist
		}
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", r.PID, table))
		if err != nil {
			continue // it has no IPv6
		}
		for inode, s := range readTable(table, f, e.pending) {
			switch d := e.pending[inode]; {
			case d == nil || s.unnamed:
			case s.listens:
				d.kind, d.name = tachyon.ObjectListener, s.network+" "+s.at
			default:
				d.kind, d.name = tachyon.ObjectConnection, objects.Connection(s.network, s.at, s.to, s.accepted)
			}
			delete(e.pending, inode)
		}
		_ = f.Close()
	}
	clear(e.pending)
	e.next = r.now + max(tableEvery, tableShare*(monotonic()-begin))
}

// readTable returns the sockets of a table with wanted inodes, by inode. An inode that has
// different rows is not known: the path of a Unix socket may have line ends, and so make rows.
func readTable(table string, from io.Reader, want map[uint64]*descriptor) map[uint64]socket {
	lines := bufio.NewScanner(io.LimitReader(from, maxSockets))
	lines.Buffer(make([]byte, 0, 4096), 4096)
	parse := inetRow
	if table == "unix" {
		parse = unixRow
	}
	found := map[uint64]socket{}
	listening := map[string]bool{} // ends at which sockets listen
	previous := uint64(0)
	for lines.Scan() {
		s, ok := parse(table, lines.Text())
		if !ok {
			if table == "unix" { // the row before has only a part of its path, or this is the title
				found[previous] = socket{unnamed: true}
			}
			continue
		}
		previous = s.inode
		if s.listens {
			listening[s.end] = true
		}
		if _, wanted := want[s.inode]; !wanted {
			continue
		}
		other, again := found[s.inode]
		s.unnamed = s.unnamed || again && other != s
		found[s.inode] = s
	}
	for inode, s := range found {
		s.accepted = listening[s.end]
		s.unnamed = s.unnamed || table == "unix" && !s.accepted // the program may have dialed
		found[inode] = s
	}
	return found
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
	state, err1 := strconv.ParseUint(f[3], 16, 8)
	inode, err2 := strconv.ParseUint(f[9], 10, 64)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return s, false
	}
	s.inode, s.network = inode, strings.TrimSuffix(table, "6")
	s.at, s.to, s.end = inetName(at), inetName(to), strconv.Itoa(int(at.Port()))
	s.listens = state == listen || s.network == "udp" && state == closed // anyone may send to it
	far := to.Addr()
	if s.listens {
		far = at.Addr()
	}
	s.unnamed = !s.listens && (state == synSent || state == closed) || far.Is6() && (far.IsLinkLocalUnicast() || far.IsLinkLocalMulticast())
	return s, true
}

// inetAddress parses an address of a table: words in the order of bytes of this machine, and a
// port.
func inetAddress(text string) (a netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(text, ":")
	p, err1 := strconv.ParseUint(port, 16, 16)
	b, err2 := hex.DecodeString(host)
	if err1 != nil || err2 != nil || len(b)%4 != 0 {
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
	flags, err1 := strconv.ParseUint(f[3], 16, 64)
	kind, err2 := strconv.ParseUint(f[4], 16, 64)
	state, err3 := strconv.ParseUint(f[5], 16, 64)
	inode, err4 := strconv.ParseUint(f[6], 10, 64)
	if cmp.Or(err1, err2, err3, err4) != nil || !strings.HasSuffix(f[0], ":") {
		return s, false
	}
	s.inode, s.network, s.at, s.end = inode, "unix", line, line
	s.listens = flags&acceptFlag != 0 || kind == datagram && state == unconnected
	s.unnamed = s.at == "" || !s.listens && (kind == datagram || state != connected)
	return s, true
}
