// Package analyze answers questions from the samples of a profile: which groups of goroutines
// leak, what changed between two runs, why some requests are slow. Each analysis is in a file of
// its own. It reads the samples one by one and keeps only sums, so that its memory does not grow
// with the number of samples. It prints nothing and knows no file.
package analyze

import (
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// waits reports whether a goroutine waits, given a sample's status: it neither runs nor could.
func waits(s tachyon.Status) bool {
	return s&(tachyon.OnCPU|tachyon.HasGIL|tachyon.GILRequested) == 0
}

// isGap reports whether a frame stands for time of which nothing is known.
func isGap(f *tachyon.Frame) bool {
	return f.File == "" && (f.Func == "[not recorded]" || f.Func == tachyon.FuncNotSeen)
}

// reason returns what a goroutine waits for, given its stack's innermost frame. It is "" if the
// frame does not say so.
func reason(f *tachyon.Frame) string {
	r, _ := profile.WaitReason(*f)
	return r
}
