// Package analyze answers questions from the samples of a profile: which groups of goroutines
// leak, what changed between two runs, why some requests are slow. An analysis takes the samples one by one ([Samples]) and
// keeps only sums, so that its memory does not grow with the number of samples. It prints nothing. Command, page and top call
// it, and show what it returns.
//
// # Files
//
// Each question has a file with its exported functions, and files that mostly it uses:
//
//   - report.go: sums by function, label and so on; latency.go
//   - diff.go: what changed; compare.go, diffjudge.go
//   - leaks.go: what leaks; leaksprocesses.go, leaksproven.go, groups.go
//   - locks.go: what goroutines waited for; waitpoint.go, lockgroups.go. Who held it: holders.go, holdersums.go, holdchannels.go, handover.go,
//     stays.go, holdkeys.go, channels.go. What the source text says of it: lockops.go, regions.go, names.go, source.go
//   - waits.go: chains of waits, also with the files of locks.go; waitchain.go, waittargets.go
//   - requests.go: why requests are slow; spans.go, requestfunc.go, requestlist.go, handlers.go, lengths.go, slowest.go
//   - idle.go: which waits are idle, for the others; idlestacks.go, idle_table.go
//
// Several use analyze.go, samples.go, states.go, series.go, partlist.go and closures.go.
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
