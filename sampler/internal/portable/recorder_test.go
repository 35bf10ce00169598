package portable

import (
	"fmt"
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// recorder is an Out that keeps everything.
type recorder struct {
	ids        map[tachyon.Frame]uint32
	frames     []tachyon.Frame
	goroutines map[uint64]source.Goroutine
	labels     map[uint64][]map[string]string
	gone       []uint64
	samples    []source.Sample
	process    []source.Sample // of pseudo threads
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
	r.samples = append(r.samples, c)
}

func (*recorder) Counted() {}

func (r *recorder) Batch(f func()) { f() }

func (r *recorder) Fail(err error) { r.failed = err }

// stack returns a sample's frames.
func (r *recorder) stack(s *source.Sample) []tachyon.Frame {
	fs := make([]tachyon.Frame, len(s.Stack))
	for i, id := range s.Stack {
		fs[i] = r.frames[id]
	}
	return fs
}
