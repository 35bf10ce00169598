//go:build linux && (amd64 || arm64)

package native

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// fakes is a roster of simulated goroutines. They have only the words that a visit reads.
type fakes struct {
	s     *shared
	gs    uintptr
	stack uintptr
	goid  uint64
	began map[uint64]uint64 // time of the start, by goid
	born  map[uint64]uint64 // the same, or a later time at which it has run
}

// A fakeTest is a test, or one of rapid's runs of it.
type fakeTest interface {
	rapid.TB
	Cleanup(func())
}

const (
	mostFakes = 700
	fakeSize  = 1024
)

func newFakes(t fakeTest) *fakes {
	l := testenv.Must(goruntime.LayoutOf(runtime.Version()))
	head := (unsafe.Sizeof(shared{}) + 63) &^ 63
	sizes := []uintptr{head, ringWords * 8, maxChunks * 8, chunkSize * entryWords * 8, mostFakes * fakeSize, 4096, mostFakes/8 + 8}
	total := uintptr(0)
	for i, size := range sizes {
		sizes[i] = total
		total += size
	}
	memory := testenv.Must(mem.Map(total))
	base := memory.Addr()
	s := at(base)
	s.Off = l.Offsets
	s.ring, s.chunks = base+sizes[1], base+sizes[2]
	mem.Store64(s.chunks, uint64(base+sizes[3]))
	s.outside = base + sizes[6]
	s.asked, s.period, s.now = 1e6, 1e6, 1e9
	s.tornAfter, s.visitLimit = 1<<62, 1<<62
	t.Cleanup(func() { unix.Munmap(memory) })
	return &fakes{s: s, gs: base + sizes[4], stack: base + sizes[5], began: map[uint64]uint64{}, born: map[uint64]uint64{}}
}

// startFakes returns n goroutines that wait, of which a tick may visit so many.
func startFakes(t fakeTest, n, visits uint64) *fakes {
	f := newFakes(t)
	allot(f.s, visits)
	f.add(n)
	for i := range n {
		f.start(i)
	}
	return f
}

func (f *fakes) g(i uint64) uintptr { return f.gs + uintptr(i)*fakeSize }

func (f *fakes) status(i uint64) uint32 { return mem.Load32(f.g(i) + f.s.Off.GStatus) }

// add adds n dead goroutines to the roster, as the drain does.
func (f *fakes) add(n uint64) {
	for i := f.s.goroutines; i < f.s.goroutines+n; i++ {
		mem.Store64(f.s.entry(i)+entryG*8, uint64(f.g(i)))
		mem.Store64(f.s.entry(i)+entryLooked*8, f.s.now)
		mem.Store32(f.g(i)+f.s.Off.GStatus, 6) // dead
	}
	f.s.goroutines += n
}

// start starts a waiting goroutine in the g of one that has ended.
func (f *fakes) start(i uint64) {
	f.goid++
	f.began[f.goid], f.born[f.goid] = f.s.now, f.s.now
	g, off := f.g(i), f.s.Off
	mem.Store64(g+off.GID, f.goid)
	mem.Store64(g+off.GStackLo, uint64(f.stack))
	mem.Store64(g+off.GStackHi, uint64(f.stack+4096))
	mem.Store64(g+off.GSchedSP, uint64(f.stack+1024))
	mem.Store64(g+off.GSchedPC, 8192)
	mem.Store64(g+off.GWaitSince, 1)
	mem.Store32(g+off.GStatus, goruntime.GWaiting)
}

// restsNow is the kind that records gives a recSame up to now.
const restsNow = 100

// records simulates a tick, one period later, and calls each with its records.
func (f *fakes) records(each func(kind uint64, w uintptr)) {
	s := f.s
	s.before, s.now = s.now, s.now+s.period
	s.write = s.head
	visitSome(s)
	for at := s.head; at < s.write; {
		w := s.words(at)
		kind := mem.Load64(w) & 0xff
		if kind == recSame && mem.Load64(w+16) == s.now {
			kind = restsNow
		}
		each(kind, w)
		at += mem.Load64(w) >> 8 & 0xffffff
	}
	s.head, s.tail = s.write, s.write
}

// tick simulates a tick. It returns the visited goroutines, with the beginning of the time that a walked one's
// sample stands for.
func (f *fakes) tick(t rapid.TB) (told map[uint64]uint64) {
	told = map[uint64]uint64{}
	f.records(func(kind uint64, w uintptr) {
		goid, gap := mem.Load64(w+headGoid*8), f.s.now-mem.Load64(w+headBefore*8)
		switch kind {
		case restsNow:
			goid, gap = mem.Load64(f.g(mem.Load64(w+8))+f.s.Off.GID), 0
		case recStack:
		default:
			return
		}
		if _, twice := told[goid]; twice {
			t.Fatalf("goroutine %d was visited twice in a tick", goid)
		}
		told[goid] = gap
	})
	return told
}

// check checks the structure of the circles.
func (f *fakes) check(t rapid.TB) {
	s, in := f.s, make([]bool, f.s.goroutines)
	for name, c := range map[string]*circle{"moving": &s.moving, "active": &s.active, "still": &s.still} {
		dead := uint64(0)
		for i, n := c.look, uint64(0); n < c.n; n++ {
			if i = mem.Load64(s.entry(i)+entryNext*8) - 1; i >= s.goroutines || in[i] || n == c.n-1 && i != c.look {
				t.Fatalf("%s: after %d of %d entries from %d on comes %d", name, n, c.n, c.look, i)
			}
			in[i] = true
			if mem.Load64(s.entry(i)+entryMoved*8) == 0 {
				dead++
			}
		}
		testenv.StopIf(t, dead != c.dead || name != "active" && dead > 0, "%s: %d dead entries, but its count is %d", name, dead, c.dead)
	}
	outs := uint64(0)
	for i := range s.goroutines {
		out := mem.Load64(s.outside+uintptr(i/64*8))>>(i%64)&1 != 0
		if out {
			outs++
		}
		if next := mem.Load64(s.entry(i) + entryNext*8); out != (!in[i] && i < s.met) || in[i] != (next != 0) {
			t.Fatalf("entry %d of %d, in a circle: %v; its bit says that it is in none: %v; next %d", i, s.met, in[i], out, next)
		}
	}
	testenv.Same(t, "entries that are in no circle", s.outs, outs)
}

// TestTurns starts and ends goroutines at random. Every living goroutine must be visited in its turn. The
// time that its first visit stands for must begin before the goroutine, but at most one turn before.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFakes(t)
		s := f.s
		allot(s, uint64(rapid.IntRange(3, 40).Draw(t, "quota")))
		seen := map[uint64]bool{}
		f.add(rapid.SampledFrom([]uint64{2, 20, 150}).Draw(t, "goroutines"))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		starts, ends := random.Float64(), random.Float64()
		for range 150 {
			if s.goroutines < mostFakes-100 && random.IntN(50) == 0 {
				f.add(random.Uint64N(100))
			}
			changes := []uint64{0, 0, 0, 1, 3, 30}[random.IntN(6)]
			starts, ends := starts, ends
			all := random.IntN(40) == 0 // start, or end
			if all {
				changes, starts = s.goroutines, float64(random.IntN(2))
				ends = 1 - starts
			}
			for n := range changes {
				i := random.Uint64N(s.goroutines)
				if all {
					i = n
				}
				g := f.g(i) + s.Off.GStatus
				switch status := f.status(i); {
				case status == 6 && random.Float64() < starts:
					f.start(i)
				case status == goruntime.GWaiting && random.Float64() < ends:
					mem.Store32(g, 6)
				case status == goruntime.GWaiting:
					mem.Store32(g, goruntime.GRunning)
				case status == goruntime.GRunning:
					mem.Store32(g, goruntime.GWaiting)
					f.born[mem.Load64(f.g(i)+s.Off.GID)] = s.now // a visit found it running
				}
			}
			if random.IntN(100) == 0 {
				r := roster{s: s, taken: s.goroutines}
				r.begin(s.now)
				clear(seen)
				for goid := range f.born {
					f.began[goid], f.born[goid] = s.now, s.now
				}
			}
			// The longest time between two visits of an entry.
			most := s.period * (3 + s.goroutines/minChecks + 6*s.goroutines/s.quota)
			for goid, gap := range f.tick(t) {
				// If the last look is long ago, it stands for half of that time.
				if from := s.now - gap; !seen[goid] && (from > f.born[goid]+gap || from+most < f.began[goid]) {
					t.Fatalf("the first sample of a goroutine that began at %d is at %d and stands for the time since %d", f.born[goid], s.now, from)
				}
				seen[goid] = true
			}
			f.check(t)
		}
		// After some time without changes all living goroutines must have been visited.
		want := map[uint64]bool{}
		for i := range s.goroutines {
			if goid := mem.Load64(f.g(i) + s.Off.GID); f.status(i) == goruntime.GWaiting && !seen[goid] {
				want[goid] = true
			}
		}
		for range 10 + 10*s.goroutines/s.quota {
			for goid := range f.tick(t) {
				delete(want, goid)
			}
		}
		f.check(t)
		testenv.Same(t, "goroutines that were not visited", len(want), 0)
	})
}
