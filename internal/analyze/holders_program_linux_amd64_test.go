//go:build !race && go1.26

package analyze

import (
	"cmp"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/tachyon"
)

// A lockLog is what a program says of its locks: who held them from when until when.
type lockLog struct {
	mu    sync.Mutex
	begin time.Time
	holds map[uintptr][]hold // by the lock's address
}

// A hold is a time in which a goroutine held a lock, in µs since the log began.
type hold struct {
	goroutine  uint64
	begin, end int64
}

func newLockLog() *lockLog { return &lockLog{begin: time.Now(), holds: map[uintptr][]hold{}} }

func (l *lockLog) now() int64 { return time.Since(l.begin).Microseconds() }

// held notes that a goroutine held a lock from a time until now. It is called just before Unlock.
func (l *lockLog) held(lock unsafe.Pointer, goroutine uint64, begin int64) {
	end := l.now()
	l.mu.Lock()
	l.holds[uintptr(lock)] = append(l.holds[uintptr(lock)], hold{goroutine, begin, end})
	l.mu.Unlock()
}

// ownID returns the id of the present goroutine.
func ownID() uint64 {
	text := strings.TrimPrefix(string(stackText()), "goroutine ")
	id, err := strconv.ParseUint(text[:strings.IndexByte(text, ' ')], 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

func stackText() []byte {
	b := make([]byte, 64)
	return b[:runtime.Stack(b, false)]
}

// spin computes for some time.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

// A planted program has locks, holds them, and keeps the log.
type planted struct {
	log  *lockLog
	stop chan struct{}
	all  sync.WaitGroup
}

// goes starts a goroutine that calls f with its id until the program stops.
func (p *planted) goes(f func(id uint64)) {
	p.all.Go(func() {
		for id := ownID(); ; {
			select {
			case <-p.stop:
				return
			default:
				f(id)
			}
		}
	})
}

// store is a type with locks.
type store struct {
	mu    sync.Mutex
	table sync.RWMutex
}

func (s *store) sleepy(p *planted, id uint64) {
	s.mu.Lock()
	begin := p.log.now()
	time.Sleep(3 * time.Millisecond)
	p.log.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
}

func (s *store) compute(p *planted, id uint64, d time.Duration) {
	s.mu.Lock()
	begin := p.log.now()
	defer s.mu.Unlock()
	spin(d)
	p.log.held(unsafe.Pointer(&s.mu), id, begin)
}

func (s *store) refresh(p *planted, id uint64) {
	s.mu.Lock()
	begin := p.log.now()
	s.load()
	p.log.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
}

func (s *store) load() { time.Sleep(30 * time.Millisecond) }

func (s *store) lookUp(p *planted, id uint64) {
	s.mu.Lock()
	begin := p.log.now()
	p.log.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(2 * time.Millisecond)
}

func (s *store) readSlowly(p *planted, id uint64) {
	s.table.RLock()
	begin := p.log.now()
	s.load()
	p.log.held(unsafe.Pointer(&s.table), id, begin)
	s.table.RUnlock()
	time.Sleep(2 * time.Millisecond)
}

func (s *store) write(p *planted, id uint64) {
	s.table.Lock()
	defer s.table.Unlock()
	begin := p.log.now()
	spin(200 * time.Microsecond)
	p.log.held(unsafe.Pointer(&s.table), id, begin)
}

// nested holds mu while it waits for other.mu.
func (s *store) nested(p *planted, other *store, id uint64) {
	s.mu.Lock()
	begin := p.log.now()
	other.mu.Lock()
	second := p.log.now()
	time.Sleep(5 * time.Millisecond)
	p.log.held(unsafe.Pointer(&other.mu), id, second)
	other.mu.Unlock()
	p.log.held(unsafe.Pointer(&s.mu), id, begin)
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
}

// Programs that keep a log of all their locks. The profile shows the holder at almost each tick at which a
// goroutine waits. With Go 1.25 it does not know which lock a goroutine waits for.
func TestHoldersOfProgram(t *testing.T) {
	cases := []struct {
		name   string
		screen string // what the first screen of a report says of a lock and of the line of its holder
		run    func(p *planted)
	}{
		{"sleeps", ` s\.mu  sync\.Mutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*sleepy  holders\S*:\d+$`, func(p *planted) {
			s := &store{}
			for range 4 {
				p.goes(func(id uint64) { s.sleepy(p, id) })
			}
		}},
		{"computes", ` s\.mu  sync\.Mutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*(spin|compute)  holders\S*:\d+$`, func(p *planted) {
			s := &store{}
			for range 4 {
				p.goes(func(id uint64) { s.compute(p, id, time.Millisecond) })
			}
		}},
		{"computes shortly", ` s\.mu  sync\.Mutex\n.* held in .*(\n +holds are too short to tell one from the next)?$`, func(p *planted) {
			s := &store{}
			for range 4 {
				p.goes(func(id uint64) { s.compute(p, id, 50*time.Microsecond) })
			}
		}},
		{"refresher", ` s\.mu  sync\.Mutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*load  holders\S*:\d+$`, func(p *planted) {
			s := &store{}
			p.goes(func(id uint64) { s.refresh(p, id) })
			for range 4 {
				p.goes(func(id uint64) { s.lookUp(p, id) })
			}
		}},
		{"two of one type", ` s\.mu  sync\.Mutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*sleepy  holders\S*:\d+$(\n.*)?\n.* s\.mu  sync\.Mutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*sleepy  holders\S*:\d+$`, func(p *planted) {
			for range 2 {
				s := &store{}
				for range 3 {
					p.goes(func(id uint64) { s.sleepy(p, id) })
				}
			}
		}},
		{"slow reader", ` s\.table  sync\.RWMutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*load  holders\S*:\d+$`, func(p *planted) {
			s := &store{}
			p.goes(func(id uint64) { s.readSlowly(p, id) })
			for range 3 {
				p.goes(func(id uint64) { s.write(p, id) })
			}
		}},
		{"nested", ` (other|s)\.mu  sync\.Mutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*(sleepy|nested)  holders\S*:\d+$(\n.*)?\n.* s\.mu  sync\.Mutex\n +[0-9.]+ % held in \[[A-Za-z. ]+\] \S*(nested|sleepy)  holders\S*:\d+$`, func(p *planted) {
			a, b := &store{}, &store{}
			for range 2 {
				p.goes(func(id uint64) { a.nested(p, b, id) })
				p.goes(func(id uint64) { b.sleepy(p, id) })
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := &planted{log: newLockLog(), stop: make(chan struct{})}
			path := filepath.Join(t.TempDir(), "x.tach")
			session := openNative(t, path)
			c.run(p)
			time.Sleep(1500 * time.Millisecond)
			close(p.stop)
			p.all.Wait()
			if err := session.Stop(); err != nil {
				t.Fatal(err)
			}
			for _, list := range p.log.holds {
				slices.SortFunc(list, func(a, b hold) int { return cmp.Compare(a.begin, b.begin) })
			}
			onFirstScreen(t, path, c.screen)
			x := compareHolders(t, p.log, path, LockOptions{})
			if c.name == "computes shortly" { // too short to tell
				return
			}
			if 100*x.right < 95*(x.right+x.wrong) {
				t.Errorf("the holder is right at %d instants and wrong at %d", x.right, x.wrong)
			}
			if all := x.right + x.wrong + x.unknown; 10*x.unknown > all || all == 0 {
				t.Errorf("the holder is unknown at %d of %d instants", x.unknown, all)
			}
			// Without source the lines between Lock and Unlock are a guess.
			x = compareHolders(t, p.log, path, LockOptions{Source: func(string) ([]byte, error) { return nil, io.EOF }})
			if 100*x.right < 85*(x.right+x.wrong) {
				t.Errorf("without source the holder is right at %d instants and wrong at %d", x.right, x.wrong)
			}
		})
	}
}

// openNative begins a session with the native source. That gives up if the machine is so busy that it
// cannot start within a second or so, and is tried again then.
func openNative(t *testing.T, path string) *profiler.Session {
	t.Helper()
	for try := 1; ; try++ {
		session, err := profiler.Open(profiler.Output(path), profiler.Budget(100), profiler.Source(profiler.Native))
		if err == nil {
			return session
		}
		if try == 20 {
			t.Fatal(err)
		}
		t.Log(err)
		time.Sleep(100 * time.Millisecond)
	}
}

// holderCounts counts the ticks at which goroutines waited for a lock.
type holderCounts struct{ right, wrong, unknown int }

// compareHolders compares the holders that a profile shows with the log.
func compareHolders(t *testing.T, log *lockLog, path string, o LockOptions) (out holderCounts) {
	f, err := reader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shift := int64(f.Header().Start) - log.begin.UnixMicro()
	ticks := ticksOfFile(t, f)
	var short, long struct{ said, all int } // holds shorter than half a tick, and those longer than four
	l := newLockSums(samplesOf(t, stream.Options{Objects: true}, f), o)
	l.onCharge = func(c *charge) {
		if o.Channels != isChannel(l.sums[c.object].kind) {
			return
		}
		from, _ := slices.BinarySearch(ticks, c.from+1)
		to, _ := slices.BinarySearch(ticks, c.to+1)
		for _, at := range ticks[from:to] {
			if c.how == unknown {
				out.unknown++
				continue
			}
			var held *hold
			for lock, list := range log.holds {
				// A wait of one goroutine only may have no number.
				if c.object < 0 || l.objects[c.object].Addr == uint64(lock) || l.sums[c.object].kind == tachyon.ObjectSelect {
					held = cmp.Or(held, heldAt(list, c.goroutine, int64(at)+shift))
				}
			}
			if held == nil {
				out.wrong++
				continue
			}
			out.right++
			count := &short
			switch length := uint64(held.end - held.begin); {
			case length >= 4*l.tick():
				count = &long
			case length > l.tick()/2:
				continue
			}
			count.all++
			if c.short {
				count.said++
			}
		}
	}
	if err := l.read(); err != nil {
		t.Fatal(err)
	}
	if err := l.holders(); err != nil {
		t.Fatal(err)
	}
	t.Logf("tick %v: %+v; said to be short: %+v of the short holds, %+v of the long ones", micros(l.tick()), out, short, long)
	for _, x := range l.result().Locks {
		if x.IsLock() {
			h := x.Holder
			t.Logf("%s %d: waited %v in %d waits, seen %v, inferred %v, unknown %v, short %v %v, states %v",
				x.Name, x.Object, x.Waited, x.Waits, h.Seen, h.Inferred, h.Unknown, h.Short, h.TooShort, h.States)
			if sum := h.Seen + h.Inferred + h.Unknown; sum != x.Waited {
				t.Errorf("seen, inferred and unknown add up to %v", sum)
			}
		}
	}
	// A goroutine that takes the lock again and again is preempted at times, so one of its holds is long.
	// On a machine with much other work most are, and they are near each other.
	if o.Source == nil && (short.all > 100+10*long.all && 100*short.said < 15*short.all || long.all > 100+10*short.all && 100*long.said > 10*long.all) {
		t.Errorf("said to be too short: %+v of the short holds, %+v of the long ones", short, long)
	}
	return out
}

// ticksOfFile returns the times of the ticks, in µs since the start: those at which several goroutines
// have samples.
func ticksOfFile(t *testing.T, f *reader.Reader) (list []uint64) {
	count := map[uint64]int{}
	for s, err := range f.Samples() {
		if err != nil {
			t.Fatal(err)
		}
		count[s.Time-f.Header().Start]++
	}
	for at, n := range count {
		if n >= 3 {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return list
}

// heldAt returns the hold of a goroutine at a time, or between the holds before and after.
func heldAt(list []hold, goroutine uint64, at int64) *hold {
	const slack = 150 // µs
	for i, h := range list {
		if h.goroutine != goroutine {
			continue
		}
		from, to := h.begin, h.end
		if i > 0 {
			from = min(from, list[i-1].end)
		}
		if i+1 < len(list) {
			to = max(to, min(list[i+1].begin, to+5000))
		}
		if from-slack <= at && at <= to+slack {
			return &list[i]
		}
	}
	return nil
}
