package e2e

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/reader"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// A diary is memory that a program shares with the test that kills it. The program records what the
// sampler passes to the writer, and when the program runs.
//
//	   0 words of 8 bytes, see below
//	4096 times at which the program ran, µs on the monotonic clock
//	 1 M samples: thread, interpreter, hash
//	16 M times at which each worker set its labels, µs on the monotonic clock
type diary []byte

const (
	started    = iota // when Start had returned, µs on the monotonic clock
	stopping          // when Stop was called
	stopped           // when Stop had returned
	epoch             // a sample's time minus epoch is the time on the monotonic clock
	begun             // number of samples passed to the writer
	done              // number of samples that the writer has taken
	beats             // number of times at which the program ran
	told              // number of parts of goroutines' metadata that the writer has taken
	progressed        // the progress that the writer has taken: its time since the start, µs

	beatsAt    = 4096
	samplesAt  = 1 << 20
	sampleSize = 24
	labelsAt   = 16 << 20
	maxLabels  = 2048 // of a worker
	diarySize  = labelsAt + 64*maxLabels*8
)

func openDiary(path string) (diary, error) { return testenv.Share(path, diarySize) }

func (d diary) at(i int) uint64            { return binary.NativeEndian.Uint64(d[i:]) }
func (d diary) put(i int, v uint64)        { binary.NativeEndian.PutUint64(d[i:], v) }
func (d diary) word(i int) uint64          { return d.at(8 * i) }
func (d diary) set(i int, v uint64)        { d.put(8*i, v) }
func (d diary) beat(i uint64) uint64       { return d.at(beatsAt + 8*int(i)) }
func (d diary) label(worker, i int) uint64 { return d.at(labelsAt + 8*(worker*maxLabels+i)) }
func (d diary) sample(i uint64) diary      { return d[samplesAt+sampleSize*int(i):] }

// monotonic returns the time of the monotonic clock in µs, which is the same for all processes.
func monotonic() uint64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return uint64(ts.Nano() / 1000)
}

// A tee is a sink that records in the diary what it passes to the writer.
type tee struct {
	sampler.Sink
	d      diary
	frames []uint64 // hashes
}

func (t *tee) Intern(f tachyon.Frame) uint32 {
	id := t.Sink.Intern(f)
	t.frames = append(t.frames, make([]uint64, max(0, int(id)+1-len(t.frames)))...)
	t.frames[id] = hashFrame(&f)
	return id
}

func (t *tee) WriteBatch(list []tachyon.Sample) (int, error) {
	before := t.d.word(begun)
	for i := range list {
		s := &list[i]
		e := t.d.sample(before + uint64(i))
		e.set(0, s.Thread)
		e.set(1, uint64(s.Interpreter))
		e.set(2, hashSample(s, func(id uint32) uint64 { return t.frames[id] }))
	}
	t.d.set(begun, before+uint64(len(list)))
	n, err := t.Sink.WriteBatch(list)
	t.d.set(done, before+uint64(n))
	return n, err
}

func (t *tee) WriteRecords(r *tachyon.Records) error {
	err := t.Sink.WriteRecords(r)
	t.d.set(told, t.d.word(told)+uint64(len(r.Goroutines)))
	if r.Progress != nil {
		t.d.set(progressed, uint64(r.Progress.Duration.Microseconds()))
	}
	return err
}

func hashFrame(f *tachyon.Frame) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d", f.File, f.Func, f.Line)
	return h.Sum64()
}

func hashSample(s *tachyon.Sample, frame func(uint32) uint64) uint64 {
	h := testenv.Mix(s.Time ^ uint64(s.Status)<<56)
	for _, id := range s.Stack {
		h = testenv.Mix(h ^ frame(id))
	}
	return h
}

// ran returns the time for which the program ran between two times. If it recorded nothing for more than
// 5 ms, it had no core.
func (d diary) ran(from, to uint64) (sum time.Duration) {
	last := from
	note := func(t uint64) {
		if t > last && t <= to {
			sum += min(time.Duration(t-last)*time.Microsecond, 5*time.Millisecond)
			last = t
		}
	}
	for i := range d.word(beats) {
		note(d.beat(i))
	}
	note(to)
	return sum
}

// check compares a session's files with the diary. It returns the time of the last sample.
func (d diary) check(files []string) (last uint64, err error) {
	type thread struct{ id, interpreter uint64 }
	got := map[thread][]uint64{}
	n, parts := uint64(0), uint64(0)
	for _, path := range files {
		r, err := reader.Open(path)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		h := r.Header()
		if present, err := r.VerifyChecksum(); err != nil || !present {
			return 0, fmt.Errorf("a checksum: %v; %w", present, err)
		}
		m, err := r.Metadata()
		if err != nil {
			return 0, err
		}
		if h.Samples > 0 && m.Session == nil || m.Session != nil && m.Session.Program != filepath.Base(os.Args[0]) {
			return 0, fmt.Errorf("the session is %+v", m.Session)
		}
		frames := make([]uint64, len(r.Frames()))
		for id := range frames {
			frames[id] = hashFrame(&r.Frames()[id])
		}
		for s, err := range r.Samples() {
			if err != nil {
				return 0, err
			}
			k := thread{s.Thread, uint64(s.Interpreter)}
			got[k] = append(got[k], hashSample(s, func(id uint32) uint64 { return frames[id] }))
			last = max(last, s.Time-d.word(epoch))
		}
		n += h.Samples
		for g, err := range r.Goroutines() {
			if err != nil {
				return 0, err
			}
			if parts++; g.Last < g.First {
				return 0, fmt.Errorf("a part of goroutine %d is %+v", g.ID, g)
			}
		}
		if m.Session != nil && len(files) == 1 && m.Session.Duration.Microseconds() < int64(d.word(progressed)) {
			return 0, fmt.Errorf("the session is %v long, but the progress was %d µs", m.Session.Duration, d.word(progressed))
		}
	}
	if parts < d.word(told) {
		return 0, fmt.Errorf("%d parts of goroutines, the writer took %d", parts, d.word(told))
	}
	if n < d.word(done) || n > d.word(begun) {
		return 0, fmt.Errorf("%d samples, want %d to %d", n, d.word(done), d.word(begun))
	}
	for i := range n {
		e := d.sample(i)
		k := thread{e.word(0), e.word(1)}
		if len(got[k]) == 0 || got[k][0] != e.word(2) {
			return 0, fmt.Errorf("sample %d, of goroutine %d, is missing or wrong; the goroutine has %d more", i, k.id, len(got[k]))
		}
		got[k] = got[k][1:]
	}
	return last, nil // all n samples were compared
}
