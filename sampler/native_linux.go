package sampler

import "github.com/gotach/profiler/sampler/internal/source"

// nativeSource returns the native source, or why this build has none.
func nativeSource() (source.Source, string) {
	return nil, "this version of the profiler has no native source"
}
