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

// frame is an open call.
type frame struct {
	fn       uint32
	same     int32     // index of the next open call of the same function outwards, -1: none
	cycle    int32     // how many there are
	start    []float64 // values when it was entered
	children []float64 // what is not its own, so far
}

// Flat reads all events and returns what each function took, in the order of
// the report's functions.
func (r *Reader) Flat() ([]FunctionTotals, error) {
	metrics := len(r.meta.EnabledMetrics)
	totals := map[uint32]*FunctionTotals{}
	innermost := map[uint32]int32{} // open call of each function
	var stack []frame
	for e, err := range r.Events() {
		if err != nil {
			return nil, err
		}
		if e.Enter {
			same, ok := innermost[e.Function]
			if !ok {
				same = -1
			}
			innermost[e.Function] = int32(len(stack))
			if len(stack) < cap(stack) { // with the values of a call that has ended
				stack = stack[:len(stack)+1]
			} else {
				stack = append(stack, frame{})
			}
			f := &stack[len(stack)-1]
			f.fn, f.same, f.cycle = e.Function, same, 0
			if same >= 0 {
				f.cycle = stack[same].cycle + 1
			}
			if f.start == nil {
				f.start, f.children = make([]float64, metrics), make([]float64, metrics)
			}
			copy(f.start, e.Values)
			clear(f.children)
			continue
		}
		f := &stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		t := totals[f.fn]
		if t == nil {
			t = &FunctionTotals{Inc: make([]float64, metrics), Exc: make([]float64, metrics)}
			totals[f.fn] = t
		}
		t.Called++
		t.MaxCycleDepth = max(t.MaxCycleDepth, int(f.cycle))
		for i, v := range e.Values {
			inc := v - f.start[i]
			exc := inc - f.children[i]
			if len(stack) > 0 {
				stack[len(stack)-1].children[i] += inc
			}
			if f.same >= 0 {
				// Its own time is that of the function's outer call, too.
				stack[f.same].children[i] -= exc
			} else {
				t.Inc[i] += inc
				t.Exc[i] += exc
			}
		}
		if f.same >= 0 {
			innermost[f.fn] = f.same
		} else {
			delete(innermost, f.fn)
		}
	}
	var out []FunctionTotals
	for i, fn := range r.Functions() {
		if t := totals[uint32(i)]; t != nil {
			t.Function = fn
			out = append(out, *t)
		}
	}
	return out, nil
}
