//go:build linux && (amd64 || arm64)

package native

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/tachyon"
)

// The drain's part of what goroutines wait for. Package objects gives the objects numbers, and the
// number is the line of the wait frame.

// withObject notes what a record's goroutine waits for. s is the stack of the record. withObject
// returns the stack with the number of the object, connection or file, or s if there is none.
func (d *drain) withObject(g *goroutine, r record, s *stack) *stack {
	g.waits = g.waits[:0]
	switch {
	case len(r.objects()) == 0 || !d.stacks.waitFrames:
		return s
	case d.s.waits.Poll>>(r.reason()&63)&1 != 0:
		return d.withDescriptor(r, s)
	}
	k := d.l.WaitKind(r.reason())
	w := objects.Waiter{Index: r[headIndex], ID: g.id, G: uintptr(r[headG])}
	if !r.inTurn() {
		w.Index = uint64(d.roster.index[r[headG]])
	}
	for _, addr := range r.objects() {
		if addr >= 4096 { // otherwise the goroutine is being woken
			g.waits = append(g.waits, addr-k.Offset)
		}
	}
	return d.stacks.numbered(s, d.objects.Wait(w, objects.Kind(k.Kind, s.rwMutex), g.waits, s.callers))
}

// newObjects returns an empty list.
func (d *drain) newObjects() *objects.List {
	return objects.New(objects.Host{
		Static:     d.image.Static,
		StillWaits: d.stillWaits,
		Renumber:   func(w objects.Waiter) { d.renumber(&d.gs[w.Index]) },
		Capacity:   func(w objects.Waiter, channel uint64) int64 { return capacity(d.l, w.G, channel) },
	})
}

// stillWaits reports whether a goroutine waits for the object at an address, as far as is known.
func (d *drain) stillWaits(w objects.Waiter, addr uint64) bool {
	if w.Index >= uint64(len(d.gs)) {
		return false
	}
	g := &d.gs[w.Index]
	return g.id == w.ID && !g.ran && g.parked != nil && slices.Contains(g.waits, addr)
}

// renumber gives a waiting goroutine's stack the numbers that its objects have now.
func (d *drain) renumber(g *goroutine) {
	s := g.parked
	if s.plain != nil {
		s = s.plain
	}
	g.parked = d.stacks.numbered(s, d.objects.Numbered(g.waits))
}

// capacity returns the capacity of a channel for which a goroutine waits, -1 if it no longer waits.
func capacity(l *goruntime.Layout, g uintptr, channel uint64) int64 {
	first := mem.ReadWord(g + l.GWaiting)
	sudog := uintptr(first)
	for range objects.MaxObjects {
		if sudog == 0 {
			break
		}
		if mem.ReadWord(sudog+l.SudogC) == channel {
			n := mem.ReadWord(uintptr(channel) + l.HchanSize)
			if mem.ReadWord(g+l.GWaiting) == first && mem.ReadWord(sudog+l.SudogC) == channel && n < 1<<48 {
				return int64(n)
			}
			break
		}
		sudog = uintptr(mem.ReadWord(sudog + l.SudogWaitLink))
	}
	return -1
}

// withDescriptor returns the stack of a record's goroutine, which is in [IO wait], with the number
// of what it waits for. It returns s if that is not known.
func (d *drain) withDescriptor(r record, s *stack) *stack {
	list := r.objects()
	if len(list) != pollWords {
		if len(list) == 1 {
			d.learn(list[0], r[headG])
		}
		return s
	}
	ends, p, seq := d.ends, list[0], list[2]
	c, ok := ends.known[p]
	if !ok || c.seq != seq || d.objects.Now-c.saw > surelySame || !c.lost && c.end.kind == "" {
		c = descriptor{seq: seq}
		c.end, ok = ends.ask(uintptr(p)+d.l.PollFDSeq, seq, int(list[1]))
		c.lost = !ok
		if len(ends.known) >= maxDescriptors {
			clear(ends.known)
		}
	}
	c.saw = d.objects.Now
	ends.known[p] = c
	if x := d.objects.Named(c.end.kind, c.end.name); x != nil {
		return d.stacks.numbered(s, x)
	}
	return s
}

// learn notes that a page has pollDescs if a word from a stack is the address of one there. gp is
// the goroutine that had it.
func (d *drain) learn(p, gp uint64) {
	if p%pollAlign != 0 {
		return
	}
	var words [pollAlign / 8]uint64
	if mem.Read(uintptr(p), words[:]) == nil && (words[d.l.PollRG/8] == gp || words[d.l.PollWG/8] == gp) {
		d.s.addPoll(p)
	}
}

// Which file or connection a goroutine in [IO wait] waits for (objects.go has the handler's part).
// The kernel is asked what a descriptor is, once for each use of its number. The answer counts only
// if the pollDesc had the same use before and after the question: Go gives up the pollDesc before
// it closes the descriptor.
//
// Descriptors with one name are one object, such as all connections to a database: a program may
// make a new one for each request. The first names get a number at once. Later ones need a place,
// as other objects do (package objects).

const (
	maxDescriptors = 1 << 16 // that are remembered; then all are asked for again
	surelySame     = 5 * time.Second
)

// descriptors has the open files that goroutines have waited for.
type descriptors struct {
	known     map[uint64]descriptor // by the address of the pollDesc
	listening map[uint16]bool       // ports on which the program has accepted connections
}

// descriptor is one use of a pollDesc. PollFDSeq has some 19 bits and wraps around, so after
// surelySame the kernel is asked again.
type descriptor struct {
	seq  uint64
	saw  time.Duration
	end  farEnd
	lost bool // it was closed before the kernel was asked
}

func newDescriptors() *descriptors { return &descriptors{known: map[uint64]descriptor{}} }

// ask asks the kernel what a descriptor is. It returns false if the descriptor is no longer the one
// whose use had the count seq, which is at seqAt.
func (e *descriptors) ask(seqAt uintptr, seq uint64, fd int) (farEnd, bool) {
	if mem.LoadAcquire(seqAt) != seq {
		return farEnd{}, false
	}
	if e.listening == nil {
		e.listening = listeners()
	}
	end, port := describeDescriptor(fd, e.listening)
	if mem.LoadAcquire(seqAt) != seq {
		return farEnd{}, false
	}
	if end.kind == tachyon.ObjectListener && port != 0 && strings.HasPrefix(end.name, "tcp ") { // UDP has ports of its own
		e.listening[port] = true
	}
	return end, true
}

// farEnd is what a descriptor refers to.
type farEnd struct{ kind, name string }

// describeDescriptor says what a file descriptor is. Its kind is "" if that is not known, as that
// of a connection which is not made yet. listening has the ports on which connections are accepted.
// port is the local one, 0 if there is none.
func describeDescriptor(fd int, listening map[uint16]bool) (end farEnd, port uint16) {
	local, e := socketName(unix.SYS_GETSOCKNAME, fd)
	if e == unix.ENOTSOCK {
		link, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)) // "" is no file
		kind, name := objects.File(link)
		return farEnd{kind, name}, 0
	}
	if e != 0 {
		return farEnd{}, 0
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return farEnd{}, 0
	}
	network, at, port := socketAddress(local, kind)
	if network == "" {
		return farEnd{}, 0
	}
	if accepts(fd) {
		return farEnd{tachyon.ObjectListener, network + " " + at}, port
	}
	peer, e := socketName(unix.SYS_GETPEERNAME, fd)
	switch {
	case e == unix.ENOTCONN && kind == unix.SOCK_DGRAM && at != "":
		return farEnd{tachyon.ObjectListener, network + " " + at}, port // anyone may send to it
	case e != 0:
		return farEnd{}, 0
	}
	_, to, _ := socketAddress(peer, kind)
	return farEnd{tachyon.ObjectConnection, objects.Connection(network, at, to, listening[port])}, port
}

// accepts reports whether a descriptor is a socket that accepts connections.
func accepts(fd int) bool {
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && v != 0
}

// listeners returns the ports on which the program accepts connections, as far as their descriptors
// are small numbers. Later ones are found as goroutines wait for them.
func listeners() map[uint16]bool {
	ports := map[uint16]bool{}
	for fd := range 256 {
		if !accepts(fd) {
			continue
		}
		if local, e := socketName(unix.SYS_GETSOCKNAME, fd); e == 0 {
			if _, _, port := socketAddress(local, unix.SOCK_STREAM); port != 0 {
				ports[port] = true
			}
		}
	}
	return ports
}

// socketName returns the address of a socket as the kernel has it, given getsockname or
// getpeername. Package unix has a type for each family of addresses, which programs would link.
func socketName(call uintptr, fd int) ([]byte, unix.Errno) {
	b := make([]byte, unix.SizeofSockaddrAny)
	n := uint32(len(b))
	_, _, e := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)))
	return b[:min(n, uint32(len(b)))], e
}

// socketAddress returns the network, address and port of a socket of the given type. The network is
// "" if the address is of a family that has no name here, and the address "" if it has none.
func socketAddress(a []byte, kind int) (network, address string, port uint16) {
	switch kind {
	case unix.SOCK_STREAM:
		network = "tcp"
	case unix.SOCK_DGRAM:
		network = "udp"
	default:
		network = "ip"
	}
	family := 0
	if len(a) >= 2 {
		family = int(binary.NativeEndian.Uint16(a))
	}
	switch {
	case family == unix.AF_INET && len(a) >= unix.SizeofSockaddrInet4:
		port = binary.BigEndian.Uint16(a[2:])
		return network, joinPort(ipv4(a[4:8]), port), port
	case family == unix.AF_INET6 && len(a) >= unix.SizeofSockaddrInet6:
		port = binary.BigEndian.Uint16(a[2:])
		return network, joinPort(ipv6([16]byte(a[8:24]), binary.NativeEndian.Uint32(a[24:])), port), port
	case family == unix.AF_UNIX:
		path := string(a[2:])
		if strings.HasPrefix(path, "\x00") { // an abstract name, which may have any bytes
			return "unix", "@" + path[1:], 0
		}
		path, _, _ = strings.Cut(path, "\x00")
		return "unix", path, 0
	}
	return "", "", 0
}

// joinPort returns host:port. An address that means every one of the machine is left out.
func joinPort(host string, port uint16) string {
	if host == "0.0.0.0" || host == "[::]" {
		host = ""
	}
	return host + ":" + strconv.Itoa(int(port))
}

func ipv4(b []byte) string {
	var text []byte
	for _, x := range b {
		text = append(strconv.AppendUint(text, uint64(x), 10), '.')
	}
	return string(text[:len(text)-1])
}

// ipv6 returns an address in brackets, as RFC 5952 writes it, and one that stands for an IPv4
// address as that. Package net has this, but programs that use no network do not link it, and
// package net/netip starts a goroutine.
func ipv6(b [16]byte, zone uint32) string {
	var groups [8]uint16
	for i := range groups {
		groups[i] = uint16(b[2*i])<<8 | uint16(b[2*i+1])
	}
	if [6]uint16(groups[:6]) == [6]uint16{5: 0xffff} {
		return ipv4(b[12:])
	}
	from, zeros := 0, 1 // the first longest run of zeros, of at least two
	for i := range groups {
		n := 0
		for i+n < 8 && groups[i+n] == 0 {
			n++
		}
		if n > zeros {
			from, zeros = i, n
		}
	}
	text := "["
	for i := 0; i < 8; i++ {
		if zeros > 1 && i == from {
			text += "::"
			i += zeros - 1
			continue
		}
		if i > 0 && text[len(text)-1] != ':' {
			text += ":"
		}
		text += strconv.FormatUint(uint64(groups[i]), 16)
	}
	if zone != 0 {
		text += "%" + strconv.FormatUint(uint64(zone), 10)
	}
	return text + "]"
}
