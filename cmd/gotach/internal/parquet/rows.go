package parquet

import (
	"io"
	"slices"

	"github.com/gotach/profiler/internal/stream"
	"github.com/parquet-go/parquet-go"
)

// writeStacks writes the stacks of all runs, by their hashes.
func (c *collector) writeStacks(w io.Writer) error {
	byHash := map[int64]uint32{}
	for stack, used := range c.stacks.used {
		if used {
			byHash[c.stacks.hash(uint32(stack))] = uint32(stack)
		}
	}
	hashes := make([]int64, 0, len(byHash))
	for h := range byHash {
		hashes = append(hashes, h)
	}
	slices.Sort(hashes)
	return writeRows(w, []parquet.SortingColumn{parquet.Ascending("stack")}, func(add func(*Stack) error) error {
		var list []uint32
		for _, h := range hashes {
			list = c.src.AppendStack(list[:0], byHash[h])
			frames := make([]Frame, len(list))
			for i, n := range list {
				f := c.stacks.frame(n)
				frames[i] = Frame{f.Func, f.File, f.Line}
			}
			if err := add(&Stack{h, frames}); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxSets bounds the memory for labels that were made to maps.
const maxSets = 1 << 12

// A set is labels.
type set struct {
	labels      map[string]string
	trace, span string
}

// writeRuns writes all runs in their order.
func (c *collector) writeRuns(w io.Writer) error {
	sets := map[string]set{"": {}}
	creators := c.src.Creators()
	return writeRows(w, []parquet.SortingColumn{parquet.Ascending("service"), parquet.Ascending("start_time")}, func(add func(*Run) error) error {
		for r, err := range c.sorted.rows() {
			if err != nil {
				return err
			}
			l, ok := sets[r.labels]
			if !ok {
				if len(sets) == maxSets {
					clear(sets)
				}
				m := (&stream.Labels{Key: r.labels}).Map()
				l = set{m, m["trace_id"], m["span_id"]}
				sets[r.labels] = l
			}
			f, p := &c.files[r.file], &c.places.table.List[r.place]
			run := Run{
				Service: f.service, Host: f.host, PID: f.pid, Version: f.version, Instance: f.instance,
				Start: r.start, End: r.start + (r.wall+999)/1000, Wall: r.wall, CPU: r.cpu,
				Kind: kinds[r.kind], Goroutine: int64(r.goroutine),
				State: p.state, Reason: p.reason, Object: p.object, ObjectID: p.objectID,
				Stack: c.stacks.hash(p.stack), Labels: l.labels, TraceID: l.trace, SpanID: l.span,
			}
			if p.state == stream.NotSeen {
				run.End = max(f.start, f.end)
			}
			if int(r.creator) < len(creators) {
				run.Creator, run.CreatorSite = creators[r.creator].Func, creators[r.creator].At
			}
			if err := add(&run); err != nil {
				return err
			}
		}
		return nil
	})
}
