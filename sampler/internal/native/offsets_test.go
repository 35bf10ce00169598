//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/goruntime"
	"github.com/gotach/profiler/internal/mem"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/cost"
	"github.com/gotach/profiler/sampler/internal/source"
)

// unseen has the wrong offsets that Start does not find: the name of the field, and +8 or -8 if only this error is not
// found. The value says what a wrong offset does, or why it does no harm.
var unseen = map[string]string{
	"GBubble":       "it is used only for the word (durable) in wait reasons, and no goroutine is in a bubble at Start",
	"GSchedLR":      "amd64 has no link register, and on arm64 it only adds a caller if it is a return address",
	"GWaitSince-8":  "that field is 0 while a goroutine waits, so every visit is a walk",
	"SudogElem-8":   pointer,
	"SudogC-8":      pointer,
	"MAllLink":      "the thread of the runtime's monitor is then not known, and its CPU time has no stack",
	"mAllp":         "it distinguishes the list of Ps from a short-lived copy; if there are both, Start fails",
	"MVDSOSP":       probes,
	"MVDSOPC":       probes,
	"ModEText+8":    "the code after Go's code has no functions in the tables",
	"ModNext":       "there is no plugin",
	"ModData":       bounds,
	"ModEData":      bounds,
	"ModEBSS+8":     bounds,
	"PFree":         count,
	"SchedThreads":  count,
	"SchedSystem":   count,
	"SchedFree":     count,
	"SchedFreeBare": count,
	"PollFD":        polls,
	"PollFDSeq":     polls,
	"PollRG":        polls,
	"PollWG":        polls,
}

const (
	pointer = "the word before is the same address as a pointer, since Go 1.26"
	probes  = "only a thread that has a core shows it, and the field is not read where there is a link register"
	count   = "the number of goroutines is then not known, and [not seen] has only what looks have found"
	polls   = "the session does not know which files and connections goroutines wait for, and says so"
	bounds  = "they bound a search, and its result is checked"
)

func init() {
	children["shifted"] = shifted
	if l, err := goruntime.LayoutOf(runtime.Version()); err == nil && !l.Semaphores { // Go 1.25
		for _, name := range []string{"SudogElem", "MutexSema", "RwWriterSema", "RwReaderSema", "GroupSema", "CondNotify"} {
			unseen[name] = "this version does not say for which semaphore a goroutine waits"
		}
	}
}

// shift is an error of by bytes in a field of the layout's offsets.
type shift struct {
	name string
	at   uintptr // of the field
	by   int
}

// shifts returns the errors to try: none at first, then each offset too high by a word; at night also too low.
func shifts() []shift {
	list := []shift{{"none", 0, 0}}
	fields := reflect.TypeFor[goruntime.Offsets]()
	for _, by := range []int{8, -8}[:testenv.Times(1, 2)] {
		for i := range fields.NumField() {
			f := fields.Field(i)
			list = append(list, shift{fmt.Sprintf("%s%+d", f.Name, by), f.Offset, by})
		}
	}
	return list
}

const shiftChildren = 10 // some checks wait for a second until they give up

// shifted runs sources with one wrong offset in the layout each, beginning with the shift of the given number and leaving
// out those of other children. It prints a line for each, and ends early if a source could not give back its memory.
func shifted() {
	var from int
	fmt.Sscan(os.Getenv("GOTACH_SHIFT"), &from)
	right, err := goruntime.LayoutOf(runtime.Version())
	if err != nil {
		panic(err)
	}
	for list := shifts(); from < len(list) && !busy.Load(); from += shiftChildren {
		bad := *right
		*(*uintptr)(unsafe.Add(unsafe.Pointer(&bad.Offsets), list[from].at)) += uintptr(list[from].by)
		goruntime.Layouts["go0.0"] = &bad
		fmt.Println(tryLayout(list[from].by != 0))
	}
}

// tryLayout says whether Start refuses the layout of go0.0. If not, it samples some ticks and collections, which stop
// the world.
func tryLayout(fallback bool) string {
	s := New()
	s.version = "go0.0"
	r := newRecorder()
	if err := s.Start(source.Config{Rate: 1000, Budget: 20, Start: time.Now(), Fallback: fallback}, r); err != nil {
		return "refused: " + err.Error()
	}
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
			_ = time.Now()
			runtime.Gosched()
		}
	}()
	for end := time.Now().Add(time.Second); s.Stats().TicksReached < 10 && time.Now().Before(end); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	s.Stop()
	stop.Store(true)
	_, unknown := s.Objects()
	return fmt.Sprint("sampled ", len(r.samples), r.err, " ", unknown)
}

// TestShiftedLayout makes each offset wrong by one word. Start must find that, or unseen must have the field. The program
// must not hang or end.
func TestShiftedLayout(t *testing.T) {
	testenv.Long(t)
	var all sync.WaitGroup
	for from := range shiftChildren {
		all.Go(func() { testShifts(t, shifts(), from) })
	}
	all.Wait()
}

func testShifts(t *testing.T, list []shift, from int) {
	for from < len(list) {
		out, err := child(t, "shifted", "GOMAXPROCS=2", fmt.Sprint("GOTACH_SHIFT=", from))
		if err != nil || out == "" {
			t.Errorf("from %s on: %v\n%s", list[from].name, err, out)
			return
		}
		for result := range strings.Lines(out) {
			name := list[from].name
			listed := unseen[name]+unseen[name[:len(name)-2]] != ""
			sampled, refused := strings.HasPrefix(result, "sampled "), strings.HasPrefix(result, "refused: ")
			known := strings.HasSuffix(strings.TrimSpace(result), "<nil>")
			if strings.HasPrefix(name, "Poll") == known && sampled {
				t.Errorf("%s: whether the far ends are known: %s", name, result)
			}
			if name == "none" && !sampled || name != "none" && !refused && !(sampled && listed) {
				t.Errorf("%s: %s", name, result)
			}
			from += shiftChildren
		}
	}
}

// TestProbeVDSO has signals to a thread in the vDSO and elsewhere, and checks what follows from their counts.
func TestProbeVDSO(t *testing.T) {
	f := newFakes(t)
	s := f.s
	f.start(1)
	inside := uint64(f.stack + 512)
	mem.Store64(uintptr(inside)-8, 77) // a return address
	p := uint64(f.g(3))
	s.pid, s.probeM, s.nprocs, s.procs = uint64(unix.Getpid()), uint64(f.g(0)), 1, uintptr(unsafe.Pointer(&p))
	s.Off.MCurG, s.Off.MSignalPending, s.Off.MVDSOSP, s.Off.MVDSOPC, s.Off.MProcID, s.Off.PM = 0, 8, 16, 24, 32, 0
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range []struct{ g, pending, vdsoSP, vdsoPC, tid, sp, outside, vdso uint64 }{
		{uint64(f.g(1)), 0, inside, 77, 0, inside, 0, 0},
		{uint64(f.g(1)), 1, 0, 0, 0, 1, 1, 0},
		{uint64(f.g(1)), 0, inside, 77, 0, 1, 2, 1},
		{uint64(f.g(1)), 1, inside, 78, 1, 1, 3, 1}, // the P is another thread's
		{0, 0, inside, 77, 0, 1, 3, 1},              // the scheduler is at work
	} {
		for i, word := range []uint64{c.g, c.pending, c.vdsoSP, c.vdsoPC, uint64(unix.Gettid()) + c.tid} {
			mem.Store64(f.g(0)+uintptr(i)*8, word)
		}
		mem.Store64(f.g(3), uint64(f.g(0)))
		mem.Store64(f.g(2)+ctxSP, c.sp)
		before := [2]uint64{s.probeOther, s.probeAsked}
		noteProbe(s, f.g(2), false)
		noteProbe(s, f.g(2), true)
		if before[c.pending] += 1 - c.tid; s.probeOutside != c.outside || s.probeVDSO != c.vdso || before != [2]uint64{s.probeOther, s.probeAsked} {
			t.Errorf("%+v: %d outside, %d in the vDSO, %d asked, %d others", c, s.probeOutside, s.probeVDSO, s.probeAsked, s.probeOther)
		}
	}
	testenv.Same(t, "the M of a thread that was preempted", s.askedM, s.probeM)
	n := &Source{s: s, signal: int(unix.SIGURG), patience: cost.NewPatience(cost.CpuOfThread(), true)} // no handler knows the signals here
	for _, c := range []struct {
		outside, vdso uint64
		wrong         bool
	}{{1000, 0, true}, {10, 0, false}, {10, 1, false}} {
		s.probeOutside, s.probeVDSO = c.outside, c.vdso
		if err := n.checkVDSO(f.g(0)); (err != nil) != c.wrong {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
