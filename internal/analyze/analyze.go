// Package analyze has what the rooms below it share, which answer questions from the samples of a
// profile: which groups of goroutines leak, what changed between two runs, why some requests are
// slow. An analysis takes the samples one by one ([Samples]) and keeps only sums, so that its
// memory does not grow with the number of samples. It prints nothing. Command, page and top call
// it, and show what it returns.
//
// # Rooms
//
//   - report: sums by function, label and so on, and what one reading tells of all
//   - diff: what changed
//   - leaks: which groups of goroutines grow
//   - locks: what goroutines wait for, who has it, and the chains of such waits
//   - cores: who had the cores while goroutines waited for one
//   - requests: how many there are, and why some are slow
//   - instant: what every goroutine does at an instant
//   - findings: what is wrong with a program, in sentences
//   - idle: which waits are idle, for the others
//   - syntax: what the source text says of locks and channels
//   - analyzetest: recordings, for the tests
//
// # Files
//
//   - states.go: a state for each goroutine; partlist.go
//   - samples.go: the samples of a source, with what is asked of their stacks
//   - kinds.go: what requests are, and what a goroutine does
//   - analyze.go: what a sample says of itself
package analyze

import (
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// Waits reports whether a goroutine waits, given a sample's status: it neither runs nor could.
func Waits(s tachyon.Status) bool {
	return s&(tachyon.OnCPU|tachyon.HasGIL|tachyon.GILRequested) == 0
}

// IsGap reports whether a frame stands for time of which nothing is known.
func IsGap(f *tachyon.Frame) bool {
	return f.File == "" && (f.Func == "[not recorded]" || f.Func == tachyon.FuncNotSeen)
}

// Reason returns what a goroutine waits for, given its stack's innermost frame. It is "" if the
// frame does not say so.
func Reason(f *tachyon.Frame) string {
	r, _ := profile.WaitReason(*f)
	return r
}

// Micros returns a time that is given in µs.
func Micros(us uint64) time.Duration { return time.Duration(us) * time.Microsecond }

// Sum adds up a list.
func Sum(list []float64) (s float64) {
	for _, v := range list {
		s += v
	}
	return s
}

// IsLock reports whether objects of a kind have a holder.
func IsLock(kind string) bool { return kind == tachyon.ObjectMutex || kind == tachyon.ObjectRWMutex }

// First compares two things of which those come first that are so.
func First(a, b bool) int { return Int(b) - Int(a) }

// Int returns 1 for true.
func Int(b bool) int {
	if b {
		return 1
	}
	return 0
}
