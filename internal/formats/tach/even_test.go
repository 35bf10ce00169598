package tach

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// evened writes samples (thread, time since the start in µs, frame) into a file
// with an interval of 1 ms and counts what even makes of it: samples by thread
// and frame. Each thread has as much time as its weights say, but for an interval.
func evened(t *testing.T, samples [][3]uint64) (count [100][3]int, interval uint64) {
	t.Helper()
	const start = 1_000_000_000
	f := testenv.Must(os.Create(filepath.Join(t.TempDir(), "x.tach")))
	defer f.Close()
	w := testenv.Must(writer.New(f, writer.Options{Start: start, Interval: 1000}))
	for _, s := range samples {
		id := w.Intern(tachyon.Frame{Func: string(rune('a' + s[2]))})
		testenv.OK(t, w.Write(&tachyon.Sample{Thread: s[0], Time: start + s[1], Stack: []uint32{id}}))
	}
	testenv.OK(t, w.Close())
	r := testenv.Must(reader.Open(f.Name()))
	defer r.Close()
	src := testenv.Must(stream.New([]stream.File{{Stream: r}}, stream.Options{Markers: true, Objects: true}))
	out, begin, interval, err := even(src)
	testenv.OK(t, err)
	var last [len(count)]uint64
	for s, err := range out {
		testenv.OK(t, err)
		if (s.Time-begin)%interval != 0 || s.Time <= last[s.Goroutine] {
			t.Fatalf("thread %d has a sample at %d after %d", s.Goroutine, s.Time-begin, last[s.Goroutine])
		}
		last[s.Goroutine] = s.Time
		count[s.Goroutine][src.Frames()[src.Stacks()[s.Stack].Frame].Func[0]-'a']++
	}
	var weights [len(count)]uint64
	for s, err := range src.Samples() {
		testenv.OK(t, err)
		weights[s.Goroutine] += uint64(s.Wall.Microseconds())
	}
	for id, weight := range weights {
		n := count[id][0] + count[id][1] + count[id][2]
		if got := uint64(n) * interval; got+interval < weight || got > weight+interval {
			t.Errorf("thread %d: %d even samples of %d µs, its weights are %d µs", id, n, interval, weight)
		}
	}
	return count, interval
}

// A thinned profile has as many samples of each stack as its time says.
func TestEven(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var samples [][3]uint64
	now := uint64(1000)
	for range 100 { // 40 ms of running, seen each 1 ms or so; 60 ms of waiting, seen rarely
		for end := now + 40_000; now < end; now += 940 + random.Uint64N(120) {
			samples = append(samples, [3]uint64{1, now, 0})
		}
		for end := now + 60_000; now < end; {
			now += min(17_000+random.Uint64N(9000), end-now)
			samples = append(samples, [3]uint64{1, now, 1})
		}
	}
	samples = append(samples, [3]uint64{2, now, 2}) // seen once: one interval
	count, interval := evened(t, samples)
	if interval != 1000 {
		t.Errorf("interval %d", interval)
	}
	if n := count[1][0]; n < 3900 || n > 4200 {
		t.Errorf("%d samples of 4 s running", n)
	}
	if n := count[1][1]; n < 5900 || n > 6200 {
		t.Errorf("%d samples of 6 s waiting", n)
	}
	if n := count[2][2]; n != 1 {
		t.Errorf("%d samples of a goroutine seen once", n)
	}
}

// A clock that goes back gives no weight, and no two samples at one time.
func TestEvenBack(t *testing.T) {
	count, _ := evened(t, [][3]uint64{{1, 1000, 0}, {1, 5000, 0}, {1, 3000, 0}, {1, 9000, 0}})
	if n := count[1][0]; n != 1+4+6 {
		t.Errorf("%d samples of 11 ms", n)
	}
}

// However long goroutines waited, the number of samples is bounded.
func TestEvenBound(t *testing.T) {
	testenv.Again(t)
	var samples [][3]uint64
	for g := range uint64(100) {
		samples = append(samples, [3]uint64{g, 1000, 0}, [3]uint64{g, 3600e6, 0})
	}
	count, interval := evened(t, samples)
	var n int
	for _, c := range count {
		n += c[0]
	}
	if n > mostEvenSamples || n < mostEvenSamples/2 || interval <= 1000 {
		t.Errorf("%d samples at %d µs", n, interval)
	}
}
