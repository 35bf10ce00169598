package stream

import (
	"math"
	"runtime"
	"sync"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// A pipe has the batches of one file, which a goroutine decodes.
type pipe struct {
	batches chan *reader.Batch
	used    spares // batches to fill again
	err     error  // after batches was closed

	facts    chan *facts // closed without a value if there is an error
	factsErr error
}

// spares are batches that may be filled again. The latest one is taken first: it is most likely in
// the caches.
type spares struct {
	lock sync.Mutex
	list []*reader.Batch
}

func (s *spares) put(b *reader.Batch) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.list = append(s.list, b)
}

// take returns a new batch if there is none.
func (s *spares) take() *reader.Batch {
	s.lock.Lock()
	defer s.lock.Unlock()
	n := len(s.list) - 1
	if n < 0 {
		return &reader.Batch{}
	}
	b := s.list[n]
	s.list = s.list[:n]
	return b
}

// pipes decode files ahead of the loop that takes their samples.
type pipes struct {
	parts  []*Part
	o      *Options
	stop   chan struct{} // closed when no more batches are wanted
	group  sync.WaitGroup
	list   []*pipe // of the parts that were started, in order
	memory int64   // bytes that the started parts take, about, without the finished ones
}

const (
	// queue is the usual number of batches that wait for the loop, of each file. A batch takes
	// 64 KB.
	queue = 128
	// maxAhead is how much memory files take that are decoded ahead, in bytes. One file is always
	// decoded ahead.
	maxAhead = 64 << 20
)

// queue returns the number of batches that wait for the loop, of each file.
func (o *Options) queue() int {
	if o.Queue > 0 {
		return o.Queue
	}
	return queue
}

// memoryOf returns about how much memory the decoding of a part takes, in bytes.
func (p *pipes) memoryOf(part int) int64 {
	return int64(p.o.queue())*64<<10 + 200*int64(p.parts[part].Header.Threads)
}

// open returns the pipe of a part. It starts the parts after it as far as there is room.
func (p *pipes) open(part int) *pipe {
	for n := len(p.list); n < len(p.parts); n = len(p.list) {
		ahead := n - part
		if ahead > runtime.GOMAXPROCS(0) || ahead > 1 && p.memory+p.memoryOf(n) > maxAhead {
			break
		}
		if ahead == 1 && p.memoryOf(n) > maxAhead {
			break
		}
		p.memory += p.memoryOf(n)
		p.list = append(p.list, p.start(p.parts[n]))
	}
	return p.list[part]
}

// done says that a part was read.
func (p *pipes) done(part int) {
	p.memory -= p.memoryOf(part)
	p.list[part] = nil
}

// close ends all goroutines.
func (p *pipes) close() {
	close(p.stop)
	p.group.Wait()
}

// start begins to decode a part.
func (p *pipes) start(part *Part) *pipe {
	out := &pipe{batches: make(chan *reader.Batch, p.o.queue()), facts: make(chan *facts, 1)}
	p.group.Go(func() {
		defer close(out.facts)
		f, err := newFacts(part, p.o)
		if err != nil {
			out.factsErr = err
			return
		}
		out.facts <- f
	})
	p.group.Go(func() {
		defer close(out.batches)
		latest := uint64(tachyon.MaxTime)
		if p.o.Markers {
			latest = math.MaxUint64
		}
		for b, err := range part.Stream.Batches(out.used.take, latest) {
			if err != nil {
				out.err = err
				return
			}
			select {
			case out.batches <- b:
			case <-p.stop:
				return
			}
		}
	})
	return out
}
