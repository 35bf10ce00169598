package reader

import (
	"encoding/binary"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// read decodes the records that the source has.
func (f *Follower) read(news News) error {
	f.d.eof = false
	from := f.src.region.off
	f.n.begin(f.batch)
	f.n.yield = func() bool {
		f.deliver(news)
		f.n.begin(f.batch)
		if news.Progress != nil {
			news.Progress(f.src.region.off-from, f.src.region.limit-from)
		}
		return true
	}
	err := f.d.samples(f.n)
	f.deliver(news)
	return err
}

// deliver passes on the batch without the samples that were passed on before.
func (f *Follower) deliver(news News) {
	b := f.n.batch
	b.Stacks = f.n.stacks[:len(f.n.stacks):len(f.n.stacks)]
	f.early = append(f.early, make([]uint64, len(f.n.threads)-len(f.early))...)
	list := b.Samples[:0]
	for _, s := range b.Samples {
		if f.early[s.Thread] > 0 {
			f.early[s.Thread]--
			continue
		}
		list = append(list, s)
	}
	b.Samples = list
	f.pass(b, news)
}

func (f *Follower) pass(b *Batch, news News) {
	if (len(b.Samples) > 0 || len(b.Threads) > 0) && news.Batch != nil {
		news.Batch(b)
	}
	b.Samples, b.Threads = b.Samples[:0], b.Threads[:0]
}

// pending passes on the repeats that the file does not have yet: b has REPEAT records of them
// ([tachyon] describes these), as the writer would make them now. Later they come again, in the
// file.
func (f *Follower) pending(b []byte, news News) error {
	f.n.begin(f.batch)
	out := f.n.batch
	for len(b) > 0 {
		id, interpreter := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
		count, k := binary.Uvarint(b[13:])
		b = b[13+k:]
		if err := f.n.find(id, interpreter, f.r.header.Start); err != nil {
			return f.r.errorAt(0, "%w", err)
		}
		f.early = append(f.early, make([]uint64, len(f.n.threads)-len(f.early))...)
		th := &f.n.threads[f.n.last]
		begins := th.begin()
		known, time := f.early[f.n.last], th.time
		for i := range count {
			since, k := binary.Uvarint(b)
			status := tachyon.Status(b[k])
			b = b[k+1:]
			if time += since; time > tachyon.MaxTime {
				return f.r.errorAt(0, "%w", wire.CheckTime("a sample's time", time))
			}
			if i >= known {
				out.Samples = append(out.Samples, BatchSample{
					Time: time, Since: since, Thread: uint32(f.n.last), Stack: th.stack, Status: status, First: begins && i == 0,
				})
			}
		}
		f.early[f.n.last] = max(known, count)
	}
	out.Stacks = f.n.stacks[:len(f.n.stacks):len(f.n.stacks)]
	f.pass(out, news)
	return nil
}
