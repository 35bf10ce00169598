//go:build linux && (amd64 || arm64)

package native

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
)

// unseen has the wrong offsets that Start does not find: the name of the field and the error in bytes.
// The value says what a wrong offset does, or why it does no harm.
var unseen = map[string]string{
	"gBubble+8":    bubble,
	"gBubble-8":    bubble,
	"gSchedLR+8":   register,
	"gSchedLR-8":   register,
	"gWaitSince-8": "that field is 0 while a goroutine waits, so every visit is a walk",
	"mAllp+8":      snapshot,
	"mAllp-8":      snapshot,
	"modEText+8":   "the code after Go's code has no functions in the tables",
	"modNext+8":    "there is no plugin",
	"modNext-8":    "there is no plugin",
	"modData+8":    bounds,
	"modData-8":    bounds,
	"modEData+8":   bounds,
	"modEData-8":   bounds,
	"modEBSS+8":    bounds,

	"pFree+8":         count,
	"pFree-8":         count,
	"schedThreads+8":  count,
	"schedThreads-8":  count,
	"schedSystem+8":   count,
	"schedSystem-8":   count,
	"schedFree+8":     count,
	"schedFree-8":     count,
	"schedFreeBare+8": count,
	"schedFreeBare-8": count,
}

const (
	bubble   = "it is used only for the word (durable) in wait reasons, and no goroutine is in a bubble at Start"
	register = "amd64 has no link register, and on arm64 it only adds a caller if it is a return address"
	snapshot = "it distinguishes the list of Ps from a short-lived copy; if there are both, Start fails"
	count    = "the number of goroutines is then not known, and [not seen] has only what looks have found"
	// With Go 1.25.
	noSemaphores = "this version does not say for which semaphore a goroutine waits"

	bounds = "they bound a search, and its result is checked"
)

func init() {
	children["shifted"] = shifted
	if l, err := layoutOf(runtime.Version()); err == nil && !l.semaphores {
		for _, name := range []string{"sudogElem", "mutexSema", "rwWriterSema", "rwReaderSema", "groupSema", "condNotify"} {
			unseen[name+"+8"], unseen[name+"-8"] = noSemaphores, noSemaphores
		}
	}
	if ctxLR != 0 {
		for _, name := range []string{"mVDSOSP+8", "mVDSOSP-8", "mVDSOPC+8", "mVDSOPC-8"} {
			unseen[name] = "it is read only on processors without a link register"
		}
	}
}

// shifted runs a source with one wrong offset in the layout.
func shifted() {
	var index, by int
	fmt.Sscan(os.Getenv("GOTACH_SHIFT"), &index, &by)
	right, err := layoutOf(runtime.Version())
	if err != nil {
		panic(err)
	}
	bad := *right
	field := (*uintptr)(unsafe.Add(unsafe.Pointer(&bad.offsets), index*8))
	*field += uintptr(by)
	layouts["go0.0"] = &bad
	s := New()
	s.version = "go0.0"
	r := newRecorder()
	if err := s.Start(source.Config{Rate: 1000, Budget: 20, Start: time.Now(), Fallback: by != 0}, r); err != nil {
		fmt.Println("refused:", err)
		return
	}
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
			_ = time.Now()
			runtime.Gosched()
		}
	}()
	// Each collection stops the world.
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	s.Stop()
	stop.Store(true)
	fmt.Println("sampled", len(r.samples), r.err)
}

// TestShiftedLayout makes each offset wrong by one word; up, and at night down as well. Start must find that, or unseen
// must have the field. The program must not hang or end.
func TestShiftedLayout(t *testing.T) {
	testenv.Again(t)
	if out, err := child(t, "shifted", "GOTACH_SHIFT=0 0"); err != nil || !strings.Contains(out, "sampled") {
		t.Fatalf("nothing shifted: %v\n%s", err, out)
	}
	shifts := []int{8}
	if os.Getenv("GOTACH_NIGHT") != "" {
		shifts = []int{8, -8}
	}
	fields := reflect.TypeFor[offsets]()
	for i := range fields.NumField() {
		for _, by := range shifts {
			name := fmt.Sprintf("%s%+d", fields.Field(i).Name, by)
			var out, last string
			var err error
			// The check of the vDSO's fields needs a thread that has a core. Where all cores
			// are busy it can pass without having seen anything.
			for try := 0; try == 0 || try < 10 && strings.HasPrefix(name, "mVDSO") && strings.HasPrefix(last, "sampled"); try++ {
				out, err = child(t, "shifted", fmt.Sprintf("GOTACH_SHIFT=%d %d", i, by))
				last = out[strings.LastIndexByte(out, '\n')+1:]
			}
			why, listed := unseen[name]
			switch {
			case err != nil:
				t.Errorf("%s: %v\n%s", name, err, out)
			case strings.HasPrefix(last, "refused:"):
				t.Logf("%-18s %s", name, last)
			case !listed:
				t.Errorf("%s: %s", name, last)
			default:
				t.Logf("%-18s not noticed: %s; %s", name, why, last)
			}
		}
	}
}
