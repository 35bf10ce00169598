//go:build linux && (amd64 || arm64)

package attach

import (
	"os"
	"slices"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/objects"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/tachyon"
)

// objectsOf reads the addresses of what goroutines wait for, as the native source does
// (sampler/internal/native/objects.go): from the runtime.sudog at g.waiting, of a select one for
// each channel. The memory of a sudog stays mapped. What cannot be read has no object.
func (p *Process) objectsOf(list []walk) {
	l := p.program.layout
	sets, size := l.WaitSets(), int(max(l.SudogElem, l.SudogC, l.SudogWaitLink))+8
	next := make([]uint64, len(list))
	var left []int
	for i := range list {
		h := &list[i].head
		if list[i].pcs != nil && h.status == goruntime.GWaiting && (sets.Elem|sets.Channel|sets.Choice)>>(h.reason&63)&1 != 0 && h.waiting >= 4096 {
			next[i] = h.waiting
			left = append(left, i)
		}
	}
	for n := 0; n < objects.MaxObjects && len(left) > 0; n++ {
		var more []int
		if p.together(list, left, func(i int) (uint64, int) { return next[i], size }, func(i int, h head, b []byte) {
			w := &list[i]
			if b == nil || h.motion != w.head.motion || h.waiting != w.head.waiting {
				w.objects = nil
				return
			}
			field := l.SudogC
			if sets.Elem>>(w.head.reason&63)&1 != 0 {
				field = l.SudogElem
			}
			if addr := le.Uint64(b[field:]); addr >= 4096 { // otherwise the goroutine is being woken
				w.objects = append(w.objects, addr-l.WaitKind(int(w.head.reason)).Offset)
			}
			if next[i] = le.Uint64(b[l.SudogWaitLink:]); next[i] >= 4096 && sets.Choice>>(w.head.reason&63)&1 != 0 {
				more = append(more, i)
			}
		}) != nil {
			for _, i := range left {
				list[i].objects = nil
			}
			return
		}
		left = more
	}
}

// newObjects returns an empty list of objects.
func (r *recorder) newObjects() *objects.List {
	return objects.New(objects.Host{
		Static: r.program.image.Static,
		StillWaits: func(w objects.Waiter, addr uint64) bool {
			k := r.byG[uint64(w.G)]
			return k != nil && k.live && k.id == w.ID && !k.runs && slices.Contains(k.objects, addr)
		},
		Renumber: func(w objects.Waiter) { r.renumber(r.byG[uint64(w.G)]) },
		Capacity: r.capacity,
	})
}

// capacity returns the capacity of a channel for which a goroutine waits, -1 if it no longer waits.
func (r *recorder) capacity(w objects.Waiter, channel uint64) int64 {
	n, err := r.word(channel + uint64(r.program.layout.HchanSize))
	if err != nil || n >= 1<<48 || r.headOf(uint64(w.G)).motion != r.byG[uint64(w.G)].motion {
		return -1
	}
	return int64(n)
}

// waitsFor notes what a goroutine waits for, and returns its stack with the number of that.
func (r *recorder) waitsFor(k *known, w *walk, s *stack) []uint32 {
	k.plain, k.objects, k.file = s, w.objects, w.file
	if k.file != nil {
		return r.numbered(k, r.objects.Named(k.file.kind, k.file.name))
	}
	kind := objects.Kind(r.program.layout.WaitKind(int(w.head.reason)).Kind, s.rwMutex)
	return r.numbered(k, r.objects.Wait(objects.Waiter{ID: k.id, G: uintptr(r.gs[w.index])}, kind, w.objects, s.callers))
}

// renumber gives the stack of a goroutine the number that its object has now.
func (r *recorder) renumber(k *known) { k.stack = r.numbered(k, r.objects.Numbered(k.objects)) }

// numbered returns the stack of a goroutine with the number of an object: the line of the wait
// frame.
func (r *recorder) numbered(k *known, x *objects.Object) []uint32 {
	s := k.plain
	if k.object = x; x == nil {
		return s.ids
	}
	ids := s.numbered[x.Number]
	if ids == nil {
		ids = slices.Clone(s.ids)
		ids[0] = r.w.Intern(tachyon.Frame{Func: s.first, Line: x.Number})
		s.numbered[x.Number] = ids
	}
	return ids
}

// name names objects that are variables of the program, if its file has symbols. It is read for
// each such object that is new to a file, which are few.
func (r *recorder) name(list []tachyon.Object) {
	var addrs []uint64
	for i := range list {
		if list[i].Static != 0 {
			addrs = append(addrs, list[i].Static)
		}
	}
	if len(addrs) == 0 || r.unnamed != "" {
		return
	}
	f, err := os.Open(r.program.file)
	var found map[uint64]session.Variable
	if err == nil {
		found, err = session.Variables(f, addrs)
		_ = f.Close()
	}
	if err != nil {
		r.unnamed = err.Error()
	}
	for i := range list {
		v := found[list[i].Static]
		list[i].Symbol, list[i].Offset = v.Name, v.Offset
	}
}

// collections counts the collections of the program. Each wakes the sweeper before memory is free.
// While that is awake or not known, there may be one at any time.
func (r *recorder) collections() int64 {
	if m := r.headOf(r.sweeper).motion; m != r.swept || m.status != goruntime.GWaiting {
		r.swept = m
		r.collected++
	}
	return r.collected
}
