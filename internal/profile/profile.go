// Package profile is the profile added up: how much time each goroutine spent in
// each stack. [FromStream] makes one of samples,
// a [Builder] of anything else; [New] makes a report of one.
//
// # Weight
//
// A sample's weight follows the rule of [reader.BatchSample.Weight]: it is the time since the same
// goroutine's previous sample. All of it is wall time. It is CPU time too if the
// sample says that the goroutine used a CPU. So shares are right even if ticks were
// late or left out. Time of goroutines that no sample stands for is a record with the
// frame "[not seen]". CPU time that no goroutine used has frames such as
// "[scheduler]".
//
// # Waiting
//
// A goroutine that waits has a synthetic innermost frame whose function is the
// runtime's reason in brackets, such as "[chan receive]" or "[runnable]", and which
// has no file and no line.
// It stays in the stack: the time asleep in main.sleeper is total time of
// main.sleeper and of time.Sleep, and self time of "[sleep]".
//
// # Files
//
//   - report.go, tally.go, tree.go: rows and trees of a report
//   - fromstream.go, adder.go, series.go: samples added up to records, and to series of records
//     over time
//   - builder.go, select.go: profiles of other things, of several profiles, and of some records of
//     one
//   - own.go: which code is the program's own
//   - profile.go, words.go: Profile and Record; times as text
package profile

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// A Frame is a place in the source.
type Frame = tachyon.Frame

// Profile is a profile added up.
type Profile struct {
	Program  string        // executable or script, if known
	Start    time.Time     // zero if unknown
	Duration time.Duration // of the session; 0 if unknown
	Interval time.Duration // between two samples of a goroutine, as asked; 0 if unknown

	// Unitless reports that times are plain numbers, 1 µs for each 1. They count goroutines if the
	// profile is that of one instant (tachyon.Session.Instant). Else the file does not tell whether
	// they count samples, or the unit of time.
	Unitless bool

	Samples    int64
	Goroutines int // number of goroutines; 0 if the profile does not tell them apart

	Frames  []Frame
	Records []Record

	// Idle is time in which goroutines waited and nobody would have been faster if they had not.
	// HasIdle says that Records have it.
	Idle       time.Duration
	IdleSeries []float32 // as Record.Series
	HasIdle    bool

	// Apart is time that is no work of the program, such as that of goroutines that leak. HasApart
	// says that Records have it.
	Apart    []Apart
	HasApart bool

	// Metadata is what gotach wrote into the file; nil for other formats.
	Metadata *tachyon.Metadata
	// StartLines has the line where a function starts, by index into Frames.
	// Nil, or 0 for a frame, if unknown.
	StartLines []int32
}

// An Apart is time that is set apart, for one reason.
type Apart struct {
	What   string        `json:"what"`
	Wall   time.Duration `json:"wall_ns"`
	CPU    time.Duration `json:"cpu_ns"`
	Series []float32     `json:"-"` // as Record.Series
}

// Record is the time that one goroutine spent in one stack, in one state and
// with one set of labels.
type Record struct {
	Goroutine uint64 // id; 0 if it is no goroutine's time, or the profile does not tell them apart
	Several   bool   // the time of several goroutines added up; Goroutine is 0
	System    bool   // the runtime's own, or CPU time that no goroutine used
	// State is one of the constants below, or what the goroutine waited for, such as
	// "chan receive". It is "" if the state is unknown.
	State  string
	Labels map[string]string // nil if there are none; shared between records
	Set    *stream.Labels    // with Each: what Labels was made of, which takes less memory
	Stack  []uint32          // indices into Frames, innermost first; shared between records
	Count  int64             // samples
	Wall   time.Duration
	CPU    time.Duration

	Group  string    // see Detail.Group
	Key    uint32    // see Detail.Key
	Series []float32 // Wall in equal parts of the profile's time, ns; nil if unknown
}

// The states of a goroutine that does not wait, as in package stream.
const (
	Running      = stream.Running
	NoCore       = stream.NoCore
	Runnable     = stream.Runnable
	Syscall      = stream.Syscall
	SyscallOnCPU = stream.SyscallOnCPU
	InC          = stream.InC
	OnCPUInC     = stream.OnCPUInC
	Waiting      = stream.Waiting
	NotSeen      = stream.NotSeen
)

// OfGoroutine reports whether a record is goroutines' time, or one goroutine's. Otherwise it is CPU
// time that no goroutine used, or time of goroutines that no sample stands for.
func (r *Record) OfGoroutine() bool {
	return r.Several || r.Goroutine != 0 || !r.System && r.State != NotSeen
}

// StartLine returns the line where a frame's function starts, 0 if unknown.
func (p *Profile) StartLine(frame uint32) int32 {
	if uint64(frame) >= uint64(len(p.StartLines)) {
		return 0
	}
	return p.StartLines[frame]
}

// Total returns the wall time and the CPU time of all records.
func (p *Profile) Total() (wall, cpu time.Duration) {
	for i := range p.Records {
		wall = add(wall, p.Records[i].Wall)
		cpu = add(cpu, p.Records[i].CPU)
	}
	return wall, cpu
}

// WaitReason returns what a goroutine waits for if f is the synthetic innermost
// frame of a waiting one. A core counts as such: the reason is "runnable" then.
func WaitReason(f Frame) (reason string, ok bool) { return stream.WaitReason(f) }

// LeafState returns the state that a stack's innermost frame tells, for formats that have no
// states. It is "" if the frame is an ordinary one.
func LeafState(f Frame) string { return stream.LeafState(f) }

// entry returns the name of the function that a goroutine began with, as far as its
// stack shows: the outermost frame that is neither the runtime's nor pprof.Do's.
func (p *Profile) entry(r *Record) string {
	name := ""
	for _, id := range slices.Backward(r.Stack) {
		name = p.Frames[id].Func
		switch name {
		case "runtime.goexit", "runtime.main", "runtime/pprof.Do":
		default:
			return name
		}
	}
	return name
}

// add adds two times that are not negative. It returns the longest Duration if the sum
// does not fit.
func add(a, b time.Duration) time.Duration {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}

// Package returns the package of a function, given the function's name. Names without
// a package, such as Python's, give "".
func Package(function string) string {
	if i := strings.LastIndex(head(function), "::"); i > 0 {
		return function[:i] // Perl, C++
	}
	dot := PackageEnd(function)
	if dot <= 0 || function[dot-1] == '/' {
		return ""
	}
	return FuncName(function[:dot])
}

// FuncName returns a function's name for people. The compiler writes a dot in the last element of
// an import path as %2e.
func FuncName(function string) string { return strings.ReplaceAll(function, "%2e", ".") }

// PackageEnd returns where in a Go function's name the dot after the import path is,
// or -1.
func PackageEnd(function string) int {
	name := head(function)
	slash := strings.LastIndexByte(name, '/') + 1
	if dot := strings.IndexByte(name[slash:], '.'); dot >= 0 {
		return slash + dot
	}
	return -1
}

// head returns a function's name up to its type arguments or receiver. These may have
// dots and slashes of their own: pkg.F[github.com/x/y.T], pkg.(*T).M.
func head(function string) string {
	if i := strings.IndexAny(function, "[("); i >= 0 {
		return function[:i]
	}
	return function
}
