package spx

// FunctionTotals is what one function took, as SPX's flat profile shows it.
type FunctionTotals struct {
	Function
	Called        int64 // calls; of a sampled profile: stretches observed
	MaxCycleDepth int   // most calls of the function above one of its own

	// One a metric of Metadata.EnabledMetrics. A call within a call of the same
	// function is part of the outer one and counts once.
	Inc []float64 // with the calls made inside
	Exc []float64 // without
}

// Flat reads all events and returns what each function took, in the order of
// the report's functions.
func (r *Reader) Flat() ([]FunctionTotals, error) {
	f := newFlat(len(r.meta.EnabledMetrics))
	for e, err := range r.Events() {
		if err != nil {
			return nil, err
		}
		f.add(e)
	}
	return f.list(r.Functions()), nil
}

// flat adds events up by function.
type flat struct {
	metrics   int
	totals    map[uint32]*FunctionTotals
	innermost map[uint32]int32 // open call of each function
	stack     []call
}

// call is an open one.
type call struct {
	fn       uint32
	same     int32     // index of the next open call of the same function outwards, -1: none
	cycle    int32     // how many there are
	start    []float64 // values when it was entered
	children []float64 // what is not its own, so far
}

func newFlat(metrics int) *flat {
	return &flat{metrics: metrics, totals: map[uint32]*FunctionTotals{}, innermost: map[uint32]int32{}}
}

func (f *flat) add(e *Event) {
	if e.Enter {
		f.enter(e)
	} else {
		f.leave(e)
	}
}

func (f *flat) enter(e *Event) {
	same, ok := f.innermost[e.Function]
	if !ok {
		same = -1
	}
	depth := len(f.stack)
	f.innermost[e.Function] = int32(depth)
	if depth < cap(f.stack) { // with the slices of a call that has ended
		f.stack = f.stack[:depth+1]
	} else {
		f.stack = append(f.stack, call{})
	}
	c := &f.stack[depth]
	c.fn, c.same, c.cycle = e.Function, same, 0
	if same >= 0 {
		c.cycle = f.stack[same].cycle + 1
	}
	if c.start == nil {
		c.start, c.children = make([]float64, f.metrics), make([]float64, f.metrics)
	}
	copy(c.start, e.Values)
	clear(c.children)
}

func (f *flat) leave(e *Event) {
	c := &f.stack[len(f.stack)-1]
	f.stack = f.stack[:len(f.stack)-1]
	t := f.totals[c.fn]
	if t == nil {
		t = &FunctionTotals{Inc: make([]float64, f.metrics), Exc: make([]float64, f.metrics)}
		f.totals[c.fn] = t
	}
	t.Called++
	t.MaxCycleDepth = max(t.MaxCycleDepth, int(c.cycle))
	for i, v := range e.Values {
		inc := v - c.start[i]
		exc := inc - c.children[i]
		if len(f.stack) > 0 {
			f.stack[len(f.stack)-1].children[i] += inc
		}
		if c.same >= 0 {
			// Its own time is that of the function's outer call, too.
			f.stack[c.same].children[i] -= exc
		} else {
			t.Inc[i] += inc
			t.Exc[i] += exc
		}
	}
	if c.same >= 0 {
		f.innermost[c.fn] = c.same
	} else {
		delete(f.innermost, c.fn)
	}
}

func (f *flat) list(functions []Function) (out []FunctionTotals) {
	for i, fn := range functions {
		if t := f.totals[uint32(i)]; t != nil {
			t.Function = fn
			out = append(out, *t)
		}
	}
	return out
}
