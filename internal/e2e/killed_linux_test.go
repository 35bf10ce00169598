package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/gotach/profiler/internal/hook"
	"github.com/gotach/profiler/internal/recovery"
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
	hook.Sink = func(s any) any { return &tee{Sink: s.(sampler.Sink), d: d} }

	go func() {
		for n := uint64(0); ; n++ {
			d.put(beatsAt+8*int(n), monotonic())
			d.set(beats, n+1)
			time.Sleep(time.Millisecond)
		}
	}()
	for i := range goroutines {
		go func() {
			for n, h := 0, testenv.Mix(uint64(i)); ; n, h = n+1, testenv.Mix(h) {
				if n%32 == 0 && n/32 < maxLabels {
					pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("worker", strconv.Itoa(i), "n", strconv.Itoa(n/32))))
					d.put(labelsAt+8*(i*maxLabels+n/32), monotonic()) // from now on it certainly has them
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
// on, in their order. The last sample must not be older than 100 ms. Labels, creators, objects and the
// session's progress must be there up to the same age.
//
// Package testenv describes GOTACH_KILLS and GOTACH_KILLED_FILES.
func TestKilled(t *testing.T) {
	dir, memory := t.TempDir(), t.TempDir()
	if m, err := os.MkdirTemp("/dev/shm", "gotach-"); err == nil {
		memory = m
		defer os.RemoveAll(m)
	}
	seen := map[string]int{}
	var ages []time.Duration
	seed, gen := int(time.Now().UnixNano()>>10), lives()
	count := testenv.Kills(t)
	for n := range count {
		l := gen.Example(seed + n)
		path := filepath.Join(dir, fmt.Sprintf("%d.tach", n))
		if l.rotate != "" {
			// Beginning a new file waits for the disk, and samples wait for the file. So use memory.
			path = filepath.Join(memory, filepath.Base(path))
		}
		state, age, err := l.kill(path)
		if err != nil {
			t.Fatalf("kill %d, %+v: %v", n, *l, err)
		}
		if seen[state]++; age > 0 {
			ages = append(ages, age)
		}
		testenv.KeepKilled(t, path)
		list, _ := filepath.Glob(filepath.Join(filepath.Dir(path), fmt.Sprintf("%d.*", n)))
		for _, f := range list {
			os.Remove(f)
		}
	}
	t.Logf("%d kills: %v", count, seen)
	if slices.Sort(ages); len(ages) > 0 {
		t.Logf("age of the last sample in the file, by the clock: median %v, 95 %% below %v, at most %v",
			ages[len(ages)/2], ages[len(ages)*95/100], ages[len(ages)-1])
	}
}

// kill runs the program, kills it and checks its files. If the program was being sampled, age is the age of
// the last sample in its file.
func (l *life) kill(path string) (state string, age time.Duration, err error) {
	d, err := openDiary(path + ".diary")
	if err != nil {
		return "", 0, err
	}
	defer unix.Munmap(d)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOTACH_TEST_KILLED=%s.diary|%d|%v", path, l.goroutines, l.stopAfter),
		"PROFILE_OUT="+path, "PROFILE_SOURCE="+l.source, "PROFILE_COMPRESSION="+l.compression, "PROFILE_SYNC="+l.sync, "PROFILE_ROTATE="+l.rotate, "GOCOVERDIR="+filepath.Dir(path))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	late := testenv.Late()
	came := l.await(d, path)
	if l.delay > time.Millisecond {
		time.Sleep(l.delay)
	} else {
		for begin := time.Now(); time.Since(begin) < l.delay; {
		}
	}
	killed := monotonic()
	cmd.Process.Kill()
	cmd.Wait()
	// Three threads work on a sample, one after the other: the one that takes the tick, the sampled one, and
	// the one that reads the record. Each of them may wait so long for a core.
	delayed := 3 * late()
	if said := stderr.String(); said != "" && !strings.Contains(said, "gotach: sampling with the portable source") {
		return "", 0, fmt.Errorf("the program prints: %s", said)
	}
	if !came {
		return "", 0, errors.New("the moment never came")
	}

	files := []string{path}
	if l.rotate != "" {
		files = files[:0]
		for n := 1; n == 1 || len(files) == n-1; n++ {
			name := strings.TrimSuffix(path, ".tach") + fmt.Sprintf(".%d.tach", n)
			if _, err := os.Stat(name); err == nil {
				files = append(files, name)
			}
		}
	}
	if _, err := os.Stat(path); l.rotate == "" && errors.Is(err, os.ErrNotExist) && d.word(started) == 0 {
		return "before the file", 0, nil
	}
	end := killed
	if s := d.word(stopping); s > 0 {
		end = s
	}
	if _, err := d.check(files); err != nil {
		return "", 0, fmt.Errorf("before the recovery: %w", err)
	}
	until := d.back(end, allowedAge()+delayed)
	if err := d.checkFacts(files, until); err != nil {
		return "", 0, fmt.Errorf("before the recovery: %w", err)
	}
	var res recovery.Result
	for _, f := range files {
		one, err := recovery.Finish(f)
		if err != nil {
			return "", 0, err
		}
		if _, err := os.Stat(f + ".journal"); !errors.Is(err, os.ErrNotExist) {
			return "", 0, fmt.Errorf("the journal is still there: %v", err)
		}
		res.Finished = one.Finished
		res.Samples += one.Samples
		res.Restored += one.Restored
	}
	last, err := d.check(files)
	if err != nil {
		return "", 0, fmt.Errorf("after the recovery: %w", err)
	}
	if err := d.checkFacts(files, until); err != nil {
		return "", 0, fmt.Errorf("after the recovery: %w", err)
	}
	switch {
	case d.word(started) == 0:
		return "in Start", 0, nil
	case d.word(stopped) > 0:
		if !res.Finished || d.word(done) != res.Samples {
			return "", 0, fmt.Errorf("Stop had returned, but: %+v of %d samples", res, d.word(done))
		}
		state = "after Stop"
	case d.word(stopping) > 0 && res.Finished:
		state = "in Stop, after the header"
	case d.word(stopping) > 0:
		state = "in Stop"
	case l.rotate != "":
		state = fmt.Sprintf("sampled, in file %d", len(files))
	case res.Restored < res.Samples:
		state = "sampled, some in the file"
	default:
		state = "sampled, all in the journal"
	}
	last = max(last, d.word(started)) // there may be no sample yet
	if ran := d.ran(last, end); ran > allowedAge()+delayed && !slowed {
		return "", 0, fmt.Errorf("the program ran for %v after the last sample in the file; threads waited up to %v for a core", ran, delayed/3)
	}
	return state, time.Duration(end-min(end, last)) * time.Microsecond, nil
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
