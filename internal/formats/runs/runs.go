// Package runs makes of samples what viewers with a time axis show: tracks of runs. A run is a
// stretch of successive samples of a goroutine with the same stack and state. Formats such as
// Firefox Profiler's and speedscope's are made from it.
//
// A viewer cannot show every goroutine and every sample of a long session, so [Limits] bound what
// there is. Goroutines that the same go statement created are a group. Either each goroutine of a
// group has a track, or the group has one track, in which the time of all its goroutines is added
// up in steps. Groups with few goroutines come first, so the main goroutine and a server's accept
// loop usually have tracks of their own, and 10,000 workers have one. No time is left out: the
// times of each function and of each state are those of the samples. [Session.Left] says what was
// added up.
//
// All samples are read twice. Memory is bounded by the limits and the number of different stacks.
package runs

import (
	"math"
	"time"

	"github.com/gotach/profiler/tachyon"
)

// Limits bound the runs of a session.
type Limits struct {
	Tracks int // at least 2
	Runs   int // of goroutines with tracks of their own; of groups there are at most as many again
	Frames int // of the stacks of these runs, each run's counted anew; 0: any number
}

// Options say how to make a session.
type Options struct {
	Limits
	Lines bool // frames of different lines of a function differ; otherwise Line is 0
	// StateFrames adds a frame such as "[no core]" to stacks of goroutines that do not run if no
	// frame says so.
	StateFrames bool
	// Waits ends a run where the goroutine ran in between, though its next sample has the same
	// stack and state. If the source has objects, that also tells waits for different objects
	// apart.
	Waits bool
}

// A Session is all runs of one or several files.
type Session struct {
	Start    time.Time         // wall clock; 0 of all other times
	End      time.Duration     // of the last run
	Interval time.Duration     // between two ticks, as asked
	Metadata *tachyon.Metadata // as stream.Source.Metadata has it
	Frames   []tachyon.Frame   // of Stacks
	Stacks   []Stack           // Stacks[0] has no frame and is no run's
	States   []string          // of Run.State
	Tracks   []Track           // the main goroutine's first, the others by their first run
	Alive    []float64         // number of goroutines, the mean of each of equal parts of the time until End
	Runnable []float64         // of these the number that waited for a P
	Left     []string          // sentences that say what was left out or added up; nil: nothing
}

// A Stack is a frame on top of another stack.
type Stack struct {
	Caller uint32 // index into Session.Stacks; less than this one's
	Frame  uint32 // index into Session.Frames
	Depth  uint32 // number of frames
}

// A Track is the runs of a goroutine or of a group.
type Track struct {
	Name       string
	ID         uint64 // of the goroutine; of a group, of one of its goroutines
	Goroutines int    // 1, or how many are in the group; 0 if it is no goroutine
	Main       bool   // the main goroutine
	Runs       []Run  // by Begin
	Labels     []Span // by Begin; nil for groups

	// Step is 0 for a goroutine, whose runs do not overlap. For a group, all runs with the same
	// Begin are what its goroutines did within that step; together they may be longer.
	Step time.Duration
}

// A Run is a stretch of time with one stack and state.
type Run struct {
	Begin time.Duration
	Wall  time.Duration
	CPU   time.Duration // the part of Wall on a CPU
	Stack uint32        // index into Session.Stacks
	State uint32        // index into Session.States
}

// End returns the time at which a run of a goroutine ends.
func (r *Run) End() time.Duration { return plus(r.Begin, r.Wall) }

// A Span is a stretch of time with labels.
type Span struct {
	Begin, End time.Duration
	Labels     map[string]string // must not be changed
}

// Path appends the frames of a stack, outermost first.
func (s *Session) Path(path []uint32, stack uint32) []uint32 {
	depth := int(s.Stacks[stack].Depth)
	for range depth {
		path = append(path, 0)
	}
	for i := len(path) - 1; stack != 0; i-- {
		path[i] = s.Stacks[stack].Frame
		stack = s.Stacks[stack].Caller
	}
	return path
}

// plus adds two times of which the second is not negative. It returns the longest Duration if the
// sum does not fit.
func plus(a, b time.Duration) time.Duration {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}
