//go:build peers && linux && (amd64 || arm64)

package native

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// stalling are the functions in which a thread may lose its core between two statements.
var stalling = map[string][]string{
	"handler.go": {"takeTicks", "onTick", "interruptAll", "interrupt", "harvest"},
	"census.go":  {"census"},
	"pace.go":    {"next", "hasRun", "usesCPU", "wakeDrain"},
	"turns.go":   {"visitSome", "visitMovers", "visitNew"},
	"newgs.go":   {"addNew"},
	"rest.go":    {"rest", "listen", "endWaits"},
	"drain.go":   {"pass"},
	"passes.go":  {"pass", "loop"},
	"native.go":  {"Start", "start", "begin"},
	"setup.go":   {"prepare", "giveBack", "release", "takeOver", "memoryInUse"},
	"verify.go":  {"verify", "sampleHere", "parked"},
	"tick.go":    {"startTicker", "createTimer", "arm", "deleteTimer", "leave", "stop"},
	"look.go":    {"lookOnce", "sweep"},
	"stop.go":    {"Stop", "silence", "finishRing"},
	"losses.go":  {"losses", "giveUp"},

	"verify_offsets.go": {"checkSyscall", "checkRuns", "checkTimers", "checkIdle", "checkPreempt", "checkVDSO"},
	"verify_objects.go": {"checkObjects"},
	"verify_poll.go":    {"findPoll", "pollsOf"},
}

// stallHere is what the tests insert. It makes the thread sleep for two seconds, once, without telling the runtime.
const stallHere = `package native

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/mem"
)

var stallAt uint64

var stallUntil [2]uint64

func init() { fmt.Sscan(os.Getenv("GOTACH_STALL"), &stallAt) }

//go:nosplit
//go:norace
//go:nocheckptr
func stallHere(n uint64) {
	if n == stallAt && mem.Cas64(uintptr(unsafe.Pointer(&stallAt)), n, 0) {
		// Until a time: a sleep for a time that signals interrupt again and again would begin anew each time.
		at := uintptr(unsafe.Pointer(&stallUntil))
		mem.Syscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, at, 0, 0, 0, 0)
		stallUntil[0] += 2
		for -mem.Syscall(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, at, 0, 0, 0) == uintptr(unix.EINTR) {
		}
	}
}
`

// stalls returns a file's text with stallHere before each statement of the functions, and where these are. They are
// numbered from the length of places + 1 on.
func stalls(t *testing.T, file string, functions, places []string) ([]byte, []string) {
	text := testenv.Must(os.ReadFile(file))
	fset := token.NewFileSet()
	f := testenv.Must(parser.ParseFile(fset, file, text, 0))
	var out bytes.Buffer
	done, seen := 0, 0
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || !slices.Contains(functions, d.Name.Name) {
			continue
		}
		seen++
		ast.Inspect(d.Body, func(n ast.Node) bool {
			if b, ok := n.(*ast.BlockStmt); ok {
				for _, s := range b.List {
					if _, ok := s.(*ast.CaseClause); ok {
						break
					}
					if _, ok := s.(*ast.CommClause); ok {
						break
					}
					places = append(places, fset.Position(s.Pos()).String())
				}
			}
			return true
		})
	}
	if seen < len(functions) {
		t.Fatalf("%s has only %d of %q", file, seen, functions)
	}
	number := map[string]int{}
	for i, place := range places {
		number[place] = i + 1
	}
	for at := range text {
		if n := number[fset.Position(f.FileStart+token.Pos(at)).String()]; n != 0 {
			out.Write(text[done:at])
			fmt.Fprintf(&out, "stallHere(%d);", n)
			done = at
		}
	}
	out.Write(text[done:])
	return out.Bytes(), places
}

// TestPeerStalls makes a thread lose its core for two seconds, which is longer than others wait for it, at each step of
// Start, a tick, the drain and Stop. The program must neither end nor hang, must say an error if there is no profile, and
// must be able to sample again.
func TestPeerStalls(t *testing.T) {
	dir := testenv.Must(filepath.Abs("."))
	temp, replace, places := t.TempDir(), map[string]string{}, []string(nil)
	add := func(name string, text []byte) {
		replace[filepath.Join(dir, name)] = filepath.Join(temp, name)
		testenv.OK(t, os.WriteFile(filepath.Join(temp, name), text, 0o644))
	}
	add("stallhere.go", []byte(stallHere))
	for file, functions := range stalling {
		var text []byte
		text, places = stalls(t, file, functions, places)
		add(file, text)
	}
	overlay := testenv.Must(json.Marshal(map[string]any{"Replace": replace}))
	file := filepath.Join(temp, "overlay.json")
	testenv.OK(t, os.WriteFile(file, overlay, 0o644))
	bin := build(t, "stalls", "-overlay="+file)
	t.Logf("%d steps", len(places))
	steps := make(chan int)
	var all sync.WaitGroup
	for range 24 { // they sleep most of the time
		all.Go(func() {
			for i := range steps {
				if text, ok := output(t, []string{fmt.Sprint("GOTACH_STALL=", i+1)}, bin, t.TempDir()); !ok {
					t.Errorf("%s: %s", places[i], text)
				}
			}
		})
	}
	every := testenv.Times(5, 1)
	for i := 0; i < len(places); i += every {
		steps <- i
	}
	close(steps)
	all.Wait()
}
