package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/recovery"
	"github.com/gotach/profiler/internal/session"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// A life describes a program that is killed.
type life struct {
	source, compression, sync, rotate string
	goroutines                        int
	stopAfter                         time.Duration // when it calls Stop; 0: never
	until                             string        // the event after which it is killed
	delay                             time.Duration // from that event to the kill
}

// The values of life.until.
const (
	untilExec  = "exec"
	untilStart = "start"
	untilFlush = "flush" // the first flush
	untilStop  = "stop"
	untilNext  = "next" // the next file
)

func lives() *rapid.Generator[*life] {
	return rapid.Custom(func(t *rapid.T) *life {
		l := &life{
			source:      rapid.SampledFrom([]string{"auto", "auto", "auto", "portable"}).Draw(t, "source"),
			compression: rapid.SampledFrom([]string{"zstd", "zstd", "none"}).Draw(t, "compression"),
			sync:        rapid.SampledFrom([]string{"", "", "", "20ms"}).Draw(t, "sync"),
			goroutines:  rapid.SampledFrom([]int{1, 10, 60}).Draw(t, "goroutines"),
			until:       rapid.SampledFrom([]string{untilExec, untilStart, untilStart, untilFlush, untilFlush, untilStop, untilStop, untilNext}).Draw(t, "until"),
		}
		most := rapid.SampledFrom(map[string][]time.Duration{
			untilExec:  {40 * time.Millisecond},
			untilStart: {5 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond},
			untilFlush: {300 * time.Microsecond, 5 * time.Millisecond},
			untilStop:  {3 * time.Millisecond, 40 * time.Millisecond},
			untilNext:  {3 * time.Millisecond, 30 * time.Millisecond},
		}[l.until]).Draw(t, "at most")
		switch l.until {
		case untilFlush:
			l.goroutines, l.source = 60, "auto"
		case untilNext:
			l.goroutines, l.source, l.compression, l.rotate = 60, "auto", "none", "1MB"
		case untilStop:
			l.stopAfter = time.Millisecond + time.Duration(testenv.Mix(rapid.Uint64().Draw(t, "stop after"))%uint64(200*time.Millisecond))
		}
		l.delay = time.Duration(testenv.Mix(rapid.Uint64().Draw(t, "delay")) % uint64(most))
		return l
	})
}

func init() { programs["GOTACH_TEST_KILLED"] = runKilled }

// runKilled is the main function of the program. Environment variables describe its life.
func runKilled() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	p := strings.Split(os.Getenv("GOTACH_TEST_KILLED"), "|")
	d, err := openDiary(p[0])
	fail(err)
	goroutines, err := strconv.Atoi(p[1])
	fail(err)
	stopAfter, err := time.ParseDuration(p[2])
	fail(err)
	session.WrapSink = func(s sampler.Sink) sampler.Sink { return &tee{Sink: s, d: d} }

	for i := range goroutines {
		go func() {
			for n, h := 0, testenv.Mix(uint64(i)); ; n, h = n+1, testenv.Mix(h) {
				if n%32 == 0 {
					pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("worker", strconv.Itoa(i), "n", strconv.Itoa(n/32))))
				}
				left(int(h%100), h)
			}
		}()
	}
	// Goroutines that wait for a channel: the channel is an object, and there is a new one from time to time.
	go func() {
		for {
			c := make(chan int)
			for range 2 {
				go func() { <-c }()
			}
			time.Sleep(30 * time.Millisecond)
			close(c)
		}
	}()
	d.set(epoch, uint64(time.Now().UnixMicro())-monotonic())
	s, err := profiler.Open(profiler.Budget(100))
	fail(err)
	d.set(started, monotonic())
	if stopAfter > 0 {
		time.Sleep(stopAfter)
		d.set(stopping, monotonic())
		fail(s.Stop())
		d.set(stopped, monotonic())
	}
	select {}
}

// left and right call each other to a depth and in an order that depend on h, so that stacks differ.
//
//go:noinline
func left(n int, h uint64) {
	switch {
	case n == 0:
		time.Sleep(time.Millisecond)
	case h>>(n&63)&1 == 0:
		left(n-1, h)
	default:
		right(n-1, h)
	}
}

//go:noinline
func right(n int, h uint64) {
	if n == 0 {
		time.Sleep(time.Millisecond)
		return
	}
	left(n-1, h)
}

// TestKilled kills profiled programs at random moments, also before sampling begins, during flushes and
// during Stop. The file must be recoverable. It must have exactly the samples that the sampler had passed
// on, in their order, and all that it had passed on about goroutines. TestMeasureKilled is about the age of
// the last sample.
func TestKilled(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	var ages []time.Duration
	seed, gen := int(time.Now().UnixNano()>>10), lives()
	for n := range testenv.Times(8, 300) {
		if age := gen.Example(seed + n).kill(t); age > 0 {
			ages = append(ages, age)
		}
	}
	if slices.Sort(ages); len(ages) > 0 {
		t.Logf("age of the last sample in the file of %d programs: median %v, 95 %% below %v, at most %v",
			len(ages), ages[len(ages)/2], ages[len(ages)*95/100], ages[len(ages)-1])
	}
}

// kill runs the program, kills it and checks its files. If the program was being sampled, age is the age of the last sample in
// its file.
func (l *life) kill(t *testing.T) (age time.Duration) {
	t.Helper()
	check := func(when string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%+v: %s: %v", *l, when, err)
		}
	}
	// Beginning a new file waits for the disk, and samples wait for the file. So use memory.
	dir, err := os.MkdirTemp("/dev/shm", "gotach-")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x.tach")
	d, err := openDiary(path + ".diary")
	check("the diary", err)
	defer unix.Munmap(d)
	cmd := again(t, fmt.Sprintf("GOTACH_TEST_KILLED=%s.diary|%d|%v", path, l.goroutines, l.stopAfter), "PROFILE_OUT="+path,
		"PROFILE_SOURCE="+l.source, "PROFILE_COMPRESSION="+l.compression, "PROFILE_SYNC="+l.sync, "PROFILE_ROTATE="+l.rotate)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	check("start", cmd.Start())
	came := l.await(d, path)
	if l.delay > time.Millisecond {
		time.Sleep(l.delay)
	} else {
		for begin := time.Now(); time.Since(begin) < l.delay; {
		}
	}
	end := monotonic()
	cmd.Process.Kill()
	cmd.Wait()
	if said := stderr.String(); !came || said != "" && !strings.Contains(said, "gotach: sampling with the portable source") {
		t.Fatalf("%+v: the moment came: %v; the program prints: %s", *l, came, said)
	}
	files := []string{path}
	if l.rotate != "" {
		files, err = filepath.Glob(strings.TrimSuffix(path, ".tach") + ".*.tach")
		check("files", err)
		slices.Sort(files) // there are fewer than ten
	} else if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && d.word(started) == 0 {
		return 0 // killed before the file
	}
	_, err = d.check(files)
	check("before the recovery", err)
	var res recovery.Result
	for _, f := range files {
		one, err := recovery.Finish(f)
		check("recovery", err)
		if _, err := os.Stat(f + ".journal"); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%+v: the journal is still there: %v", *l, err)
		}
		res.Finished = one.Finished
		res.Samples += one.Samples
	}
	last, err := d.check(files)
	check("after the recovery", err)
	if d.word(stopped) > 0 && (!res.Finished || d.word(done) != res.Samples) {
		t.Fatalf("%+v: Stop had returned, but: %+v of %d samples", *l, res, d.word(done))
	}
	if d.word(started) == 0 {
		return 0
	}
	if s := d.word(stopping); s > 0 {
		end = s
	}
	last = max(last, d.word(started)) // there may be no sample yet
	return time.Duration(end-min(end, last)) * time.Microsecond
}

// await waits for the event after which the program is killed.
func (l *life) await(d diary, path string) bool {
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(20 * time.Microsecond) {
		switch l.until {
		case untilExec:
			return true
		case untilStart:
			if d.word(started) > 0 {
				return true
			}
		case untilStop:
			if d.word(stopping) > 0 {
				return true
			}
		case untilNext:
			if _, err := os.Stat(strings.TrimSuffix(path, ".tach") + ".2.tach"); err == nil {
				return true
			}
		case untilFlush:
			if fi, err := os.Stat(path); err == nil && fi.Size() > tachyon.HeaderSize {
				return true
			}
		}
	}
	return false
}
