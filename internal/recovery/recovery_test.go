//go:build darwin || dragonfly || freebsd || linux || netbsd

package recovery

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv("GOTACH_TEST_WRITE") != "" {
		writeUntilKilled()
		return
	}
	os.Exit(m.Run())
}

// A load is a sequence of samples, and of goroutines' metadata between them. Each depends only on its
// number, so the parent process knows what the killed child wrote.
type load struct {
	Path          string
	Count         string // path of a shared file with the number of samples that were written
	Seed, Threads uint64
	Samples       uint64 // the child closes the file after this number
	Same          uint64 // every Same-th sample of a thread has a different stack
	Layout        tachyon.Layout
	Uncompressed  bool
	Each          uint64 // after so many samples there is a goroutine, and progress
}

// goroutine returns the metadata of the ith goroutine.
func goroutine(i uint64) tachyon.Goroutine {
	return tachyon.Goroutine{
		ID: i + 1, Parent: testenv.Mix(i) % 5, CreatedBy: fmt.Sprint("pkg.f", i%7), CreatedAt: "file.go:3", First: i * 200, Last: i*200 + testenv.Mix(i)%5000,
		Labels: []tachyon.LabelSpan{{From: i * 200, Labels: map[string]string{"request": strconv.FormatUint(testenv.Mix(i), 36), "kind": "a"}}},
	}
}

// frames are the frames of the stacks.
var frames = func() (list []tachyon.Frame) {
	for n := range int32(3000) {
		list = append(list, tachyon.Frame{File: fmt.Sprintf("dir/file%d.go", n%200), Func: fmt.Sprintf("pkg.f%d", n), Line: n})
	}
	return list
}()

const countSize = 4096 // a page

const start = 1_700_000_000_000_000

// sample returns the ith sample and its stack.
func (l *load) sample(i uint64, stack []tachyon.Frame) (tachyon.Sample, []tachyon.Frame) {
	tick, thread := i/l.Threads, i%l.Threads
	h := testenv.Mix(l.Seed ^ testenv.Mix(thread)<<1 ^ testenv.Mix(tick/max(1, l.Same)))
	stack = stack[:0]
	for d := range h % 200 {
		stack = append(stack, frames[testenv.Mix(h>>8^d*7919)%uint64(len(frames))])
	}
	return tachyon.Sample{
		Thread: thread + 1, Interpreter: uint32(thread & 1), Status: tachyon.Status(testenv.Mix(i) & 63),
		Time: start + tick*1000 + testenv.Mix(i)%900,
	}, stack
}

// pace is the number of samples after which a child writes slowly. It goes on writing while the file
// is checked, and the check holds all goroutines in memory: on a busy machine these were tens of
// millions.
const pace = 100_000

// writeUntilKilled is the main function of the child.
func writeUntilKilled() {
	must := func(err error) { testenv.Must(0, err) }
	var l load
	must(json.Unmarshal([]byte(os.Getenv("GOTACH_TEST_WRITE")), &l))
	count := testenv.Must(testenv.Share(l.Count, countSize))
	w := testenv.Must(writer.Create(l.Path, writer.Options{Layout: l.Layout, Uncompressed: l.Uncompressed, Start: start, Interval: 1000}))
	must(w.Provisional("session", map[string]int{"pid": os.Getpid()}))
	binary.NativeEndian.PutUint64(count[8:], 1) // ready
	var stack []tachyon.Frame
	var s tachyon.Sample
	for i := range l.Samples {
		s, stack = l.sample(i, stack)
		must(w.WriteFrames(&s, stack))
		binary.NativeEndian.PutUint64(count, i+1)
		if n := i / l.Each; i%l.Each == 0 {
			must(w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{goroutine(n)}, Progress: &tachyon.Progress{Duration: time.Duration(n + 1)}}))
			binary.NativeEndian.PutUint64(count[24:], n+1)
		}
		if i > pace && i%10 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	must(w.AddMetadata("session", map[string]int{"pid": os.Getpid()}))
	must(w.Close())
	binary.NativeEndian.PutUint64(count[16:], 1) // done
	time.Sleep(time.Hour)
}

// TestKilled kills programs at random times, from their start on, during flushes and while
// they finish the file. No sample, goroutine or label that the program had written is missing,
// doubled or changed, and the progress is the last one. Some files are read while they are written.
func TestKilled(t *testing.T) {
	testenv.Long(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...uint64) uint64 { return list[r.IntN(len(list))] }
	for n := range testenv.Times(8, 300) {
		l := load{
			Path: filepath.Join(t.TempDir(), "x.tach"), Seed: r.Uint64(), Threads: pick(1, 3, 20, 300, 9000), Same: pick(1, 5, 1000),
			Layout: tachyon.Layout(pick(1, 2)), Uncompressed: pick(0, 1) == 1, Each: pick(1, 20, 1000),
			Samples: pick(1, 500, 20_000, 1<<40, 1<<40),
		}
		l.Count = l.Path + ".count"
		after := time.Duration(r.Uint64N(pick(3000, uint64(testenv.Times(30_000, 300_000))))) * time.Microsecond
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Logf("seed %d, kill after %v of %+v", seed, after, l)
			killOne(t, &l, after, n%4 != 0, n%2 == 1)
		})
	}
}

// killOne runs a child, kills it some time after its start, or after it made the file, and checks what
// is left. With live it also reads the file before.
func killOne(t *testing.T, l *load, after time.Duration, made, live bool) {
	count := testenv.Must(testenv.Share(l.Count, countSize))
	defer unix.Munmap(count)
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(count[8*i:]) }
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOTACH_TEST_WRITE="+string(testenv.Must(json.Marshal(l))), "GOCOVERDIR="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	testenv.OK(t, cmd.Start())
	end := func() { cmd.Process.Kill(); cmd.Wait() }
	defer end()
	if made {
		testenv.Await(func() bool { return word(1) == 1 })
	}
	time.Sleep(after)
	if live && word(1) == 1 && word(2) == 0 {
		l.check(t, "while it is written", 0, l.Samples, 0, l.Samples)
	}
	end()
	testenv.Same(t, "the child says", stderr.String(), "")
	testenv.Same(t, "the child has started", made && word(1) == 0, false)
	if word(1) == 0 { // the child may not have made the file yet
		if _, err := os.Stat(l.Path); err == nil {
			testenv.OK(t, testenv.Err(Finish(l.Path)))
			l.check(t, "killed in Create", 0, 1, 0, 1)
		}
		return
	}
	samples, goroutines := word(0), word(3)
	l.check(t, "before recovery", samples, min(samples+1, l.Samples), goroutines, goroutines+1)
	testenv.OK(t, testenv.Err(Finish(l.Path)))
	testenv.Is(t, "the journal", testenv.Err(os.Stat(l.Path+".journal")), os.ErrNotExist)
	l.check(t, "after recovery", samples, min(samples+1, l.Samples), goroutines, goroutines+1)
}

// check checks that a file has the first samples and goroutines of the load, so many as the limits say,
// and the latest progress if it was not finished by its writer. If least is 0, it checks samples for
// each thread alone. A file that is being written may have any number.
func (l *load) check(t *testing.T, when string, least, most, leastGoroutines, mostGoroutines uint64) {
	t.Helper()
	r := testenv.Must(reader.Open(l.Path))
	defer r.Close()
	testenv.OK(t, testenv.Err(r.VerifyChecksum()))
	m := testenv.Must(r.Metadata())
	h, n := r.Header(), uint64(len(m.Goroutines))
	testenv.FailIf(t, h.Samples < least || h.Samples > most || n < leastGoroutines || n > mostGoroutines, when+": %d samples, want %d to %d; %d goroutines, want %d to %d", h.Samples, least, most, n, leastGoroutines, mostGoroutines)
	for i, g := range m.Goroutines {
		want := goroutine(uint64(i))
		testenv.StopIf(t, !reflect.DeepEqual(g, want), when+": goroutine %d is %+v, want %+v", i, g, want)
	}
	testenv.FailIf(t, m.Session == nil && most > 1 || m.Session != nil && m.Session.PID == 0, when+": the session is %+v", m.Session)
	if m.Session != nil && mostGoroutines <= leastGoroutines+1 { // otherwise the goroutines were read before the progress
		if d := uint64(m.Session.Duration); d > n || d+1 < n && (r.Unfinished() || d > 0) {
			t.Fatalf(when+": the progress is %d of %d", d, n)
		}
	}
	ticks := make(map[uint64]uint64) // number of samples of each thread
	var stack []tachyon.Frame
	var want tachyon.Sample
	total, frames := uint64(0), r.Frames()
	for s := range testenv.All(t, r.Samples()) {
		total++
		n := ticks[s.Thread]*l.Threads + s.Thread - 1
		ticks[s.Thread]++
		want, stack = l.sample(n, stack)
		if s.Time != want.Time || s.Status != want.Status || s.Thread != want.Thread || s.Interpreter != want.Interpreter {
			t.Fatalf(when+": sample %d is %+v, want %+v", n, *s, want)
		}
		if !slices.EqualFunc(s.Stack, stack, func(id uint32, f tachyon.Frame) bool { return frames[id] == f }) {
			t.Fatalf(when+": sample %d has a wrong stack", n)
		}
	}
	testenv.FailIf(t, total != h.Samples, when+": %d samples, but the header counts %d", total, h.Samples)
	if least == 0 {
		return
	}
	for i := h.Samples; i < h.Samples+l.Threads; i++ {
		// The samples of each thread are complete up to the first missing one.
		if got := ticks[i%l.Threads+1]; got != i/l.Threads {
			t.Fatalf(when+": %d samples of thread %d, want %d of %d in all", got, i%l.Threads+1, i/l.Threads, h.Samples)
		}
	}
}

// leaves is a number of samples that is more than one buffer.
const leaves = 5000

// leave is what left has made, for all tests.
var leave struct {
	sync.Once
	file, journal []byte
}

// left returns the file and the journal of a killed writer.
func left(t testing.TB) (file, journal []byte) {
	t.Helper()
	leave.Do(func() {
		path := filepath.Join(t.TempDir(), "x.tach")
		w := testenv.Closes(t, testenv.Must(writer.Create(path, writer.Options{Start: start})))
		testenv.OK(t, w.Provisional("session", map[string]int{"pid": 1}))
		l := load{Threads: 5, Same: 2, Seed: 1}
		var stack []tachyon.Frame
		var s tachyon.Sample
		for i := range uint64(leaves) {
			s, stack = l.sample(i, stack)
			testenv.OK(t, w.WriteFrames(&s, stack))
			testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{goroutine(i)}, Progress: &tachyon.Progress{Duration: 1}}))
		}
		if leave.file = testenv.Must(os.ReadFile(path)); len(leave.file) < 1<<16 {
			t.Fatalf("no buffer was written to the file, which has %d bytes", len(leave.file))
		}
		leave.journal = testenv.Must(os.ReadFile(path + ".journal"))
	})
	return leave.file, slices.Clone(leave.journal)
}

// put writes a file and its journal.
func put(t testing.TB, file, journal []byte) (path string) {
	path = filepath.Join(t.TempDir(), "x.tach")
	testenv.OK(t, errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(path+".journal", journal, 0o600)))
	return path
}

// FuzzRecover changes a good journal. Recovery must return an error or make a file that can
// be read to its end. The input is a list of changes: an offset and 8 bytes.
func FuzzRecover(f *testing.F) {
	testenv.Long(f)
	testenv.Again(f)
	file, good := left(f)
	change := func(pairs ...uint64) (b []byte) {
		for i := 0; i < len(pairs); i += 2 {
			b = binary.LittleEndian.AppendUint32(b, uint32(pairs[i]))
			b = binary.LittleEndian.AppendUint64(b, pairs[i+1])
		}
		return b
	}
	f.Add(change())
	f.Add(change(0, 0))                                  // no magic
	f.Add(change(64, 1<<24-1))                           // a full buffer
	f.Add(change(64, 1<<63))                             // another generation
	f.Add(change(128, 1<<62, 192, 1<<62))                // a profile of 2^62 bytes
	f.Add(change(65536, 1<<40, 65536+8, 3))              // records
	f.Add(change(576<<10+8, 1<<60, 640<<10+8, 1<<60))    // bytes used of pages
	f.Add(change(576<<10, 3, 640<<10, 3, 704<<10, 1024)) // kinds of pages
	f.Add(change(576<<10+64, ^uint64(0)))
	for page := uint64(576 << 10); page < 1<<20; page += 64 << 10 {
		f.Add(change(page+8, 100, page+24, 1<<40, page+64, 1<<31, page+80, 7)) // of records, blocks, progress
		f.Add(change(page+24, 50))
	}
	f.Fuzz(func(t *testing.T, changes []byte) {
		journal := slices.Clone(good)
		for ; len(changes) >= 12; changes = changes[12:] {
			at := uint64(binary.LittleEndian.Uint32(changes)) % uint64(len(journal)-8)
			copy(journal[at:], changes[4:12])
		}
		path := put(t, file, journal)
		testenv.Bounded(t, 128<<20+50*(len(file)+len(journal)), func() { recoverAndRead(t, path) })
	})
}

// recoverAndRead finishes the file at path. The samples must be the same before and after.
func recoverAndRead(t *testing.T, path string) {
	r, err := reader.Open(path)
	if err != nil {
		finishAndVerify(t, path)
		return
	}
	samples := uint64(0)
	for _, err := range r.Samples() {
		testenv.StopIf(t, err != nil, "the file can be opened, but recovery fails: %v", err)
		samples++
	}
	r.Close()
	res, ok := finishAndVerify(t, path)
	testenv.FailIf(t, ok && res.Samples != samples, "%d samples before, %d after", samples, res.Samples)
}

// finishAndVerify finishes a file. Then all of it can be read, or there is an error and the journal is still there.
func finishAndVerify(t *testing.T, path string) (Result, bool) {
	t.Helper()
	res, err := Finish(path)
	if err != nil {
		testenv.FailIf(t, testenv.Err(os.Stat(path+".journal")) != nil, "the journal is lost, though %v", err)
		return res, false
	}
	r := testenv.Closes(t, testenv.Must(reader.Open(path)))
	err = whole(r)
	testenv.FailIf(t, err != nil || r.Unfinished() || r.Header().Samples != res.Samples, "%+v, but %v; unfinished: %v", res, err, r.Unfinished())
	return res, true
}

// One damaged record of the journal takes only the samples from there on, also if the record alone looks right.
func TestDamagedRecord(t *testing.T) {
	file, good := left(t)
	length := int(binary.LittleEndian.Uint64(good[64:]) & (1<<24 - 1))
	ends := scan(good[64<<10:][:length])
	half := len(ends) / 2
	for what, damage := range map[string]func(record []byte) (done bool){
		"encoding": func(record []byte) bool { record[12] = 77; return true },
		"frame": func(record []byte) bool {
			last := len(record) - 1
			record[last] = 0x7f
			return record[12] != byte(wire.Repeat) && record[last-1] >= 0x80 // the last number, of 14 bits
		},
	} {
		journal := slices.Clone(good)
		for n, buffer := half, journal[64<<10:]; !damage(buffer[ends[n].at:ends[n+1].at]); n++ {
			copy(buffer, good[64<<10:][:length])
		}
		res, ok := finishAndVerify(t, put(t, file, journal))
		if !ok || !strings.Contains(res.Cut, "bytes of samples") || res.Samples >= leaves || res.Restored < uint64(len(ends)/3) {
			t.Errorf("%s: %+v of %d samples, half of %d records", what, res, leaves, len(ends))
		}
	}
}

// A recovery that was interrupted after it wrote a header is done again.
func TestInterrupted(t *testing.T) {
	file, journal := left(t)
	path := put(t, file, journal)
	finishAndVerify(t, path)
	r := testenv.Must(reader.Open(path))
	h := r.Header()
	r.Close()
	h.Threads = math.MaxUint32 // as it is until they are counted
	head, whole := wire.EncodeHeader(&h), testenv.Must(os.ReadFile(path))
	copy(whole, head[:])
	res, ok := finishAndVerify(t, put(t, whole, journal))
	testenv.Same(t, "recovered", fmt.Sprint(ok, res.Samples, res.Cut), fmt.Sprint(true, leaves))
}

// A program that is killed in Create leaves a journal and a file that is still empty.
func TestKilledInCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000}))
	journal := testenv.Must(os.ReadFile(path + ".journal"))
	testenv.OK(t, w.Close())
	res, ok := finishAndVerify(t, put(t, nil, journal))
	testenv.Same(t, "recovered", fmt.Sprint(ok, res.Samples, res.Finished), "true 0 false")
}

// A goroutine that waited when the program was killed has a sample at the latest progress, unless it had ended. If samples were dropped,
// nobody knows.
func TestKilledWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000}))
	testenv.OK(t, w.Provisional("session", map[string]int{"pid": 1}))
	var told tachyon.Records
	for i, status := range []tachyon.Status{tachyon.Moved, 0, tachyon.HasGIL | tachyon.OnCPU, tachyon.Unknown} {
		for _, at := range []uint64{1000, 5000} {
			testenv.OK(t, w.WriteFrames(&tachyon.Sample{Thread: uint64(i + 1), Status: status, Time: start + at}, frames[:3]))
		}
		told.Goroutines = append(told.Goroutines, tachyon.Goroutine{ID: uint64(i + 1), First: 1000, Last: []uint64{1000, 5000}[i&1]})
	}
	for dropped, want := range []string{"[1 0 3] true 9", "[] true 8"} {
		told.Progress = &tachyon.Progress{Duration: 9 * time.Millisecond, Counts: tachyon.Counts{Unwritten: time.Duration(dropped)}}
		testenv.OK(t, w.WriteRecords(&told))
		copied, last := put(t, testenv.Must(os.ReadFile(path)), testenv.Must(os.ReadFile(path+".journal"))), []string{}
		for s := range testenv.All(t, testenv.Closes(t, testenv.Must(reader.Open(copied))).Samples()) {
			if s.Time == start+9000 {
				last = append(last, fmt.Sprint(s.Thread, s.Status, len(s.Stack)))
			}
		}
		res, ok := finishAndVerify(t, copied)
		testenv.Prints(t, "at the end, and recovered", want, last, ok, res.Samples)
	}
	testenv.OK(t, w.Close())
}

// Damaged records of goroutines are left out. The samples stay.
func TestDamagedGoroutines(t *testing.T) {
	file, journal := left(t)
	for page := 576 << 10; page < len(journal); page += 64 << 10 {
		if binary.LittleEndian.Uint64(journal[page:]) == 4 { // records that are in no block
			for i := range 200 {
				journal[page+64+500+i] = 0xff
			}
		}
	}
	res, ok := finishAndVerify(t, put(t, file, journal))
	testenv.Same(t, "recovered", fmt.Sprint(ok, res.Samples, " ", res.Cut), fmt.Sprint(true, leaves, " the latest records of goroutines"))
}
