// Package sourcetest has what the tests of sources share.
package sourcetest

import (
	"time"

	"github.com/gotach/profiler/internal/own"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// Out keeps what a source says beside its samples. Tests add the method Sample.
type Out struct {
	Frames []tachyon.Frame
	Told   map[uint64]source.Goroutine
	Sets   map[uint64][]map[string]string // of labels
	Ended  []uint64
	Err    error
	ids    map[tachyon.Frame]uint32
}

// NewOut returns an Out that has heard nothing.
func NewOut() Out {
	return Out{Told: map[uint64]source.Goroutine{}, Sets: map[uint64][]map[string]string{}, ids: map[tachyon.Frame]uint32{}}
}

func (o *Out) Frame(f tachyon.Frame) uint32 {
	id, ok := o.ids[f]
	if !ok {
		id = uint32(len(o.Frames))
		o.Frames = append(o.Frames, f)
		o.ids[f] = id
	}
	return id
}

func (o *Out) Goroutine(g source.Goroutine) bool {
	if own.Created(g.CreatedBy) {
		return false
	}
	o.Told[g.ID] = g
	return true
}

func (o *Out) Labels(id uint64, _ time.Duration, labels map[string]string) {
	o.Sets[id] = append(o.Sets[id], labels) // neither side changes it afterwards
}

func (o *Out) Gone(id uint64)  { o.Ended = append(o.Ended, id) }
func (o *Out) Fail(err error)  { o.Err = err }
func (*Out) Batch(pass func()) { pass() }
func (*Out) Counted()          {}

// Stack returns the frames of a sample.
func (o *Out) Stack(s *source.Sample) (stack []tachyon.Frame) {
	for _, id := range s.Stack {
		stack = append(stack, o.Frames[id])
	}
	return stack
}
