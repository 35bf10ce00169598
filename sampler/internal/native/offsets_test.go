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

	"github.com/gotach/profiler/sampler/internal/source"
)

// unseen are the fields of which a wrong place, so many bytes off, is not noticed at Start, and why that does no
// harm beyond what is said here.
var unseen = map[string]string{
	"gBubble+8":    bubble,
	"gBubble-8":    bubble,
	"gSchedLR+8":   register,
	"gSchedLR-8":   register,
	"gWaitSince-8": "a neighbour that is 0 while a goroutine waits: every visit is a walk",
	"mAllp+8":      snapshot,
	"mAllp-8":      snapshot,
	"modEText+8":   "what follows Go's code has no functions in the tables",
	"modNext+8":    "no plugin is there to lead to",
	"modNext-8":    "no plugin is there to lead to",
	"modData+8":    bounds,
	"modData-8":    bounds,
	"modEData+8":   bounds,
	"modEData-8":   bounds,
	"modEBSS+8":    bounds,
}

const (
	bubble   = "only the word (durable) in wait reasons hangs on it, and no goroutine is in a bubble at Start"
	register = "amd64 has no link register, and on arm64 it only puts a caller back where it is a return address"
	snapshot = "it tells one list of Ps from a copy, which is there for moments; with both Start refuses"
	bounds   = "they bound a search whose result is checked"
)

func init() {
	children["shifted"] = shifted
	if ctxLR != 0 {
		for _, name := range []string{"mVDSOSP+8", "mVDSOSP-8", "mVDSOPC+8", "mVDSOPC-8"} {
			unseen[name] = "only read where there is no link register"
		}
	}
}

// shifted runs a source with one field of the layout moved.
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
	if err := s.Start(source.Config{Rate: 1000, Budget: 20, Start: time.Now()}, r); err != nil {
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

// TestShiftedLayout has each offset be wrong by a word, either way. Start notices, or the
// field is listed with the reason why that does no harm; and nothing hangs or ends the program.
func TestShiftedLayout(t *testing.T) {
	if out, err := child(t, "shifted", "GOTACH_SHIFT=0 0"); err != nil || !strings.Contains(out, "sampled") {
		t.Fatalf("nothing shifted: %v\n%s", err, out)
	}
	shifts := []int{8, -8}
	if testing.Short() {
		shifts = shifts[:1]
	}
	fields := reflect.TypeFor[offsets]()
	for i := range fields.NumField() {
		for _, by := range shifts {
			name := fmt.Sprintf("%s%+d", fields.Field(i).Name, by)
			out, err := child(t, "shifted", fmt.Sprintf("GOTACH_SHIFT=%d %d", i, by))
			last := out[strings.LastIndexByte(out, '\n')+1:]
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
