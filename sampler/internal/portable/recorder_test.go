package portable

import (
	"fmt"
	"sync"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// recorder is an Out that keeps everything.
type recorder struct {
	mu         sync.Mutex
	ids        map[tachyon.Frame]uint32
	frames     []tachyon.Frame
	goroutines map[uint64]source.Goroutine
	labels     map[uint64][]map[string]string
	gone       []uint64
	samples    []source.Sample
	process    []source.Sample // of pseudo threads
	asked      int             // calls of Frame
	failed     error
	onSample   func()
}

func newRecorder() *recorder {
	return &recorder{
		ids:        make(map[tachyon.Frame]uint32),
		goroutines: make(map[uint64]source.Goroutine),
		labels:     make(map[uint64][]map[string]string),
	}
}

func (r *recorder) Frame(f tachyon.Frame) uint32 {
	r.asked++
	id, ok := r.ids[f]
	if !ok {
		id = uint32(len(r.frames))
		r.ids[f] = id
		r.frames = append(r.frames, f)
	}
	return id
}

func (r *recorder) Goroutine(g source.Goroutine) bool {
	if own.Created(g.CreatedBy) {
		return false
	}
	if _, ok := r.goroutines[g.ID]; ok {
		panic(fmt.Sprint("Goroutine was called twice for goroutine ", g.ID))
	}
	r.goroutines[g.ID] = g
	return true
}

func (r *recorder) Labels(id uint64, _ time.Duration, labels map[string]string) {
	r.labels[id] = append(r.labels[id], labels)
}

func (r *recorder) Gone(id uint64) { r.gone = append(r.gone, id) }

func (r *recorder) Sample(s *source.Sample) {
	if s.Process {
		r.process = append(r.process, *s)
		return
	}
	if _, ok := r.goroutines[s.Goroutine]; !ok {
		panic(fmt.Sprint("Sample was called before Goroutine for goroutine ", s.Goroutine))
	}
	if s.Leaf != 0 {
		panic("the portable source knows no addresses")
	}
	if r.onSample != nil {
		r.onSample()
	}
	c := *s
	c.Stack = append([]uint32(nil), s.Stack...)
	r.mu.Lock()
	r.samples = append(r.samples, c)
	r.mu.Unlock()
}

func (*recorder) Counted() {}

func (r *recorder) Batch(f func()) { f() }

func (r *recorder) Fail(err error) {
	r.mu.Lock()
	r.failed = err
	r.mu.Unlock()
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.samples)
}

// stack returns a sample's frames.
func (r *recorder) stack(s *source.Sample) []tachyon.Frame {
	fs := make([]tachyon.Frame, len(s.Stack))
	for i, id := range s.Stack {
		fs[i] = r.frames[id]
	}
	return fs
}
