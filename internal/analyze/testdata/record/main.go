// Command record makes the sessions of ../sessions: it runs small programs with planted faults under the profiler.
// Each writes NAME.tach, and NAME.log.gz, which is what the program itself says it did. See ../README.md.
package main

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/gotach/profiler"
)

// A program runs until it is told to stop.
type program struct {
	name   string
	length time.Duration
	budget float64 // percent; 0: the default
	run    func(p *planted)
}

func main() {
	dir := flag.String("o", "testdata/sessions", "the folder for the sessions")
	flag.Parse()
	if url := os.Getenv("RECORD_URL"); url != "" {
		if err := clients(url); err != nil {
			log.Fatal(err)
		}
		return
	}
	for _, x := range slices.Concat(locks, channels, diffs, requests, others) {
		if flag.NArg() == 0 || slices.Contains(flag.Args(), x.name) {
			if err := record(filepath.Join(*dir, x.name), x); err != nil {
				log.Fatalf("%s: %v", x.name, err)
			}
		}
	}
}

// record runs a program in a session.
func record(path string, x program) error {
	p := &planted{begin: time.Now(), length: x.length, stop: make(chan struct{})}
	p.log = truth{Begin: p.begin.UnixMicro(), Holds: map[string][][3]int64{}}
	o := []profiler.Option{profiler.Output(path + ".tach"), profiler.Source(profiler.Native)}
	if x.budget != 0 {
		o = append(o, profiler.Budget(x.budget))
	}
	session, err := profiler.Open(o...)
	if err != nil {
		return err
	}
	x.run(p)
	time.Sleep(time.Until(p.begin.Add(x.length)))
	if p.early {
		err = session.Stop()
	}
	close(p.stop)
	p.all.Wait()
	if err := cmp.Or(err, session.Stop()); err != nil {
		return err
	}
	for _, list := range p.log.Holds {
		slices.SortFunc(list, func(a, b [3]int64) int { return int(a[1] - b[1]) })
	}
	return p.log.write(path + ".log.gz")
}

// A truth is what a program says of itself. Times are in µs.
type truth struct {
	Begin    int64                 `json:"begin"`              // since 1970
	Holds    map[string][][3]int64 `json:"holds,omitempty"`    // by address: goroutine, and since Begin from when until when it held the lock
	Requests [][2]int64            `json:"requests,omitempty"` // how long each took, and what of that was in the longer path
	Leaked   int                   `json:"leaked,omitempty"`   // goroutines
	Waited   int64                 `json:"waited,omitempty"`   // time in what was planted
}

func (x *truth) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err == nil {
		err = json.NewEncoder(z).Encode(x)
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Close()
	}
	return err
}

// A planted program keeps a log of what it does.
type planted struct {
	begin  time.Time
	length time.Duration
	early  bool // the session ends before the program does
	stop   chan struct{}
	all    sync.WaitGroup
	mu     sync.Mutex
	log    truth
}

func (p *planted) now() int64 { return time.Since(p.begin).Microseconds() }

// held notes that a goroutine held a lock from a time until now. It is called just before Unlock.
func (p *planted) held(lock unsafe.Pointer, goroutine uint64, begin int64) {
	end := p.now()
	address := "0x" + strconv.FormatUint(uint64(uintptr(lock)), 16)
	p.mu.Lock()
	p.log.Holds[address] = append(p.log.Holds[address], [3]int64{int64(goroutine), begin, end})
	p.mu.Unlock()
}

func (p *planted) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// goes starts goroutines that call f with their ids until the program stops.
func (p *planted) goes(n int, f func(id uint64)) {
	for range n {
		p.all.Go(func() {
			for id := ownID(); !p.stopped(); {
				f(id)
			}
		})
	}
}

// ownID returns the id of the present goroutine.
func ownID() uint64 {
	b := make([]byte, 64)
	text := strings.TrimPrefix(string(b[:runtime.Stack(b, false)]), "goroutine ")
	id, err := strconv.ParseUint(text[:strings.IndexByte(text, ' ')], 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

// spin computes for some time.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}
