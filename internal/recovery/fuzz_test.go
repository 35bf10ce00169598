//go:build darwin || dragonfly || freebsd || linux || netbsd

package recovery

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// left returns the file and the journal of a killed writer.
func left(t testing.TB) (file, journal []byte) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: start}))
	defer w.Close()
	testenv.OK(t, w.Provisional("session", map[string]int{"pid": 1}))
	l := load{Threads: 5, Same: 2, Seed: 1}
	var stack []tachyon.Frame
	var s tachyon.Sample
	for i := range uint64(5000) { // more than one buffer
		s, stack = l.sample(i, stack)
		testenv.OK(t, w.WriteFrames(&s, stack))
		testenv.OK(t, w.WriteRecords(&tachyon.Records{Goroutines: []tachyon.Goroutine{goroutine(i)}, Progress: &tachyon.Progress{Duration: 1}}))
	}
	if file = testenv.Must(os.ReadFile(path)); len(file) < 1<<16 {
		t.Fatalf("no buffer was written to the file, which has %d bytes", len(file))
	}
	return file, testenv.Must(os.ReadFile(path + ".journal"))
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
		if err != nil {
			t.Fatalf("the file can be opened, but recovery fails: %v", err)
		}
		samples++
	}
	r.Close()
	if res, ok := finishAndVerify(t, path); ok && res.Samples != samples {
		t.Fatalf("%d samples before, %d after", samples, res.Samples)
	}
}

// finishAndVerify finishes a file. Then all of it can be read, or there is an error and the journal is still there.
func finishAndVerify(t *testing.T, path string) (Result, bool) {
	t.Helper()
	res, err := Finish(path)
	if err != nil {
		if _, e := os.Stat(path + ".journal"); e != nil {
			t.Fatalf("the journal is lost, though %v", err)
		}
		return res, false
	}
	r := testenv.Must(reader.Open(path))
	defer r.Close()
	if err := whole(r); err != nil || r.Unfinished() || r.Header().Samples != res.Samples {
		t.Fatalf("%+v, but %v; unfinished: %v", res, err, r.Unfinished())
	}
	return res, true
}

// A damaged journal never becomes a damaged profile. What cannot be kept is said, and is not more than it has to be.
func TestDamaged(t *testing.T) {
	testenv.Again(t)
	file, good := left(t)
	r := rand.New(rand.NewPCG(1, 2))
	times, cut, refused := testenv.Times(8, 100), 0, 0
	for n := range times {
		journal := slices.Clone(good)
		for range 1 + n%3 {
			at := r.IntN(len(journal) - 8)
			if n%2 == 0 {
				at = 64<<10 + r.IntN(64<<10) // in the buffer
			}
			binary.LittleEndian.PutUint64(journal[at:], r.Uint64())
		}
		switch res, ok := finishAndVerify(t, put(t, file, journal)); {
		case !ok:
			refused++
		case res.Cut != "":
			cut++
		case res.Samples != 5000:
			t.Errorf("%d samples, and nothing is said", res.Samples)
		}
	}
	if t.Logf("%d of %d cut, %d refused", cut, times, refused); cut == 0 || refused > times/2 {
		t.Error("this is not tested")
	}
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
		if !ok || !strings.Contains(res.Cut, "bytes of samples") || res.Samples >= 5000 || res.Restored < uint64(len(ends)/3) {
			t.Errorf("%s: %+v of 5000 samples, half of %d records", what, res, len(ends))
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
	if res, ok := finishAndVerify(t, put(t, whole, journal)); !ok || res.Samples != 5000 || res.Cut != "" {
		t.Errorf("%+v", res)
	}
}

// A program that is killed in Create leaves a journal and a file that is still empty.
func TestKilledInCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: start, Interval: 1000}))
	journal := testenv.Must(os.ReadFile(path + ".journal"))
	testenv.OK(t, w.Close())
	if res, ok := finishAndVerify(t, put(t, nil, journal)); !ok || res.Samples != 0 || res.Finished {
		t.Errorf("%+v", res)
	}
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
	if res, ok := finishAndVerify(t, put(t, file, journal)); !ok || res.Cut != "the latest records of goroutines" || res.Samples != 5000 {
		t.Errorf("%+v", res)
	}
}
