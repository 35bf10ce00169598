package e2e

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

// A diary is memory that a program shares with the test that kills it. The program records what the
// sampler passes to the writer, and when it starts and stops.
//
//	   0 words of 8 bytes, see below
//	 1 M samples: thread, interpreter, hash
//	16 M parts of goroutines' metadata: hash
type diary []byte

const (
	started    = iota // when Start had returned, µs on the monotonic clock
	stopping          // when Stop was called
	stopped           // when Stop had returned
	epoch             // a sample's time minus epoch is the time on the monotonic clock
	begun             // number of samples passed to the writer
	done              // number of samples that the writer has taken
	told              // number of parts of goroutines' metadata that the writer has taken
	progressed        // the progress that the writer has taken: its time since the start, µs

	samplesAt  = 1 << 20
	sampleSize = 24
	partsAt    = 16 << 20
	diarySize  = 17 << 20
)

func openDiary(path string) (diary, error) { return testenv.Share(path, diarySize) }

func (d diary) at(i int) uint64       { return binary.NativeEndian.Uint64(d[i:]) }
func (d diary) put(i int, v uint64)   { binary.NativeEndian.PutUint64(d[i:], v) }
func (d diary) word(i int) uint64     { return d.at(8 * i) }
func (d diary) set(i int, v uint64)   { d.put(8*i, v) }
func (d diary) sample(i uint64) diary { return d[samplesAt+sampleSize*int(i):] }

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
	before := t.d.word(told)
	for i := range r.Goroutines {
		t.d.put(partsAt+8*int(before+uint64(i)), hashPart(&r.Goroutines[i]))
	}
	err := t.Sink.WriteRecords(r)
	t.d.set(told, before+uint64(len(r.Goroutines)))
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

func hashPart(g *tachyon.Goroutine) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, g.ID, g.CreatedBy)
	for _, l := range g.Labels {
		fmt.Fprint(h, l.Labels)
	}
	return h.Sum64()
}

func hashSample(s *tachyon.Sample, frame func(uint32) uint64) uint64 {
	h := testenv.Mix(s.Time ^ uint64(s.Status)<<56)
	for _, id := range s.Stack {
		h = testenv.Mix(h ^ frame(id))
	}
	return h
}

// check compares a session's files with the diary. It returns the time of the last sample.
func (d diary) check(files []string) (last uint64, err error) {
	type thread struct{ id, interpreter uint64 }
	got := map[thread][]uint64{}
	n, parts := uint64(0), map[uint64]int{}
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
			if parts[hashPart(g)]++; g.Last < g.First {
				return 0, fmt.Errorf("a part of goroutine %d is %+v", g.ID, g)
			}
		}
		if m.Session != nil && len(files) == 1 && m.Session.Duration.Microseconds() < int64(d.word(progressed)) {
			return 0, fmt.Errorf("the session is %v long, but the progress was %d µs", m.Session.Duration, d.word(progressed))
		}
	}
	for i := range d.word(told) {
		if h := d.at(partsAt + 8*int(i)); parts[h] == 0 {
			return 0, fmt.Errorf("part %d of %d of what is known about goroutines is missing", i, d.word(told))
		} else {
			parts[h]--
		}
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
