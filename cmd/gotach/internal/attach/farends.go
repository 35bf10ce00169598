//go:build linux && (amd64 || arm64)

package attach

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/objects"
)

// Which file or connection a goroutine in [IO wait] waits for. As in the native source (sampler/internal/native/pollwaits.go), the goroutine has the
// address of a runtime.pollDesc on its stack, and the pollDesc has the goroutine's. Its descriptor is open while somebody waits for it, so what the
// link of it says counts if the goroutine waits in the same way before and after. For the address of a socket, see sockets.go.

const (
	pollReach      = 768 // a pollDesc's address lies less than so far above the stack pointer
	pollAlign      = 64
	maxGuesses     = 1 << 14 // words that are followed to find a pollDesc and are none
	maxDescriptors = 1 << 16 // that are remembered; then all are asked for again
	surelySame     = 5 * time.Second
)

// farEnds has the open files that goroutines have waited for.
type farEnds struct {
	at      int             // bytes above the stack pointer at which a pollDesc was found last
	pages   map[uint64]bool // that have pollDescs: the runtime never unmaps them
	guesses int
	known   map[uint64]*descriptor // by the address of the pollDesc
	named   map[[2]string]*objects.Object
	pending map[uint64]*descriptor // sockets that have no name yet, by inode
	next    time.Duration          // when the kernel's tables may be read again
}

func newFarEnds() *farEnds {
	return &farEnds{pages: map[uint64]bool{}, known: map[uint64]*descriptor{}, named: map[[2]string]*objects.Object{}, pending: map[uint64]*descriptor{}}
}

// use is one use of a pollDesc.
type use struct{ fd, seq uint64 }

// descriptor is what was found of a use. PollFDSeq has some 19 bits, so after surelySame the link is read again.
type descriptor struct {
	use
	saw        time.Duration
	link       string
	kind, name string // "": not known
}

// pollDesc returns the address of the pollDesc of the goroutine at g, given its stack, 0 if there is none.
func (p *Process) pollDesc(g uint64, stack []byte) uint64 {
	e, l := p.ends, p.program.layout
	b := make([]byte, pollAlign)
	n := min(len(stack), pollReach) - 7
	for next := -8; next < n; next += 8 { // first where the last one was
		at := next
		if at < 0 {
			at = e.at
		}
		if at >= n {
			continue
		}
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

// uses reads the pollDescs of goroutines, given by their places in the list. It calls each for those that have waited for theirs since their stack was read.
func (p *Process) uses(list []walk, left []int, each func(w *walk, i int, u use)) {
	l := p.program.layout
	p.together(list, left, pollAlign, func(i int) uint64 { return list[i].poll }, func(i int, b []byte) {
		w, g := &list[i], p.roster.gs[list[i].index]
		if b != nil && (le.Uint64(b[l.PollRG:]) == g || le.Uint64(b[l.PollWG:]) == g) {
			each(w, i, use{le.Uint64(b[l.PollFD:]), le.Uint64(b[l.PollFDSeq:])})
		}
	})
}

// farEndsOf finds the descriptors for which goroutines wait, and what they are.
func (r *recorder) farEndsOf(list []walk) {
	e := r.ends
	if e == nil {
		return
	}
	var left, fresh []int
	for i := range list {
		if list[i].poll != 0 {
			left = append(left, i)
		}
	}
	r.uses(list, left, func(w *walk, i int, u use) {
		d := e.known[w.poll]
		if d != nil && d.use == u && r.now-d.saw < surelySame {
			d.saw, w.file = r.now, d
			r.wants(d)
		} else if link, err := os.Readlink(r.fd(u.fd)); err == nil {
			if d == nil || d.use != u || d.link != link {
				d = &descriptor{use: u, link: link}
				d.kind, d.name = objects.File(link)
			}
			w.asked, fresh = d, append(fresh, i)
		}
	})
	r.uses(list, fresh, func(w *walk, _ int, u use) {
		if u != w.asked.use {
			return
		}
		if len(e.known) >= maxDescriptors {
			clear(e.known)
		}
		w.file = w.asked
		w.file.saw = r.now
		e.known[w.poll] = w.file
		r.wants(w.file)
	})
	r.nameSockets()
}

func (r *recorder) fd(fd uint64) string { return fmt.Sprintf("/proc/%d/fd/%d", r.PID, fd) }

// wants asks for the name of a descriptor if it is a socket that has none.
func (r *recorder) wants(d *descriptor) {
	if inode := inodeOf(d.link); inode != 0 && d.kind == "" && len(r.ends.pending) < maxDescriptors {
		r.ends.pending[inode] = d
	}
}

// farEnd returns the object that a goroutine in [IO wait] waits for, nil if it is not known.
func (r *recorder) farEnd(d *descriptor) *objects.Object {
	if d.kind == "" {
		return nil
	}
	key := [2]string{d.kind, d.name}
	x := r.ends.named[key]
	if x == nil {
		if x = r.objects.Named(d.kind, d.name, len(r.ends.named)); x != nil {
			r.ends.named[key] = x
		}
	}
	return x
}

// polls reports whether a goroutine waits for a file descriptor.
func (p *Process) polls(h *head) bool {
	return h.plain() == goruntime.GWaiting && p.state(h) == goruntime.IOWait
}

// inodeOf returns the inode of a socket, given the link of its descriptor, 0 if it is none.
func inodeOf(link string) (inode uint64) {
	if strings.HasPrefix(link, "socket:[") {
		_, _ = fmt.Sscanf(link, "socket:[%d]", &inode)
	}
	return inode
}
