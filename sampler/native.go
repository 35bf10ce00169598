//go:build linux && (amd64 || arm64)

package sampler

import (
	"github.com/gotach/profiler/sampler/internal/native"
	"github.com/gotach/profiler/sampler/internal/source"
)

// nativeSource returns the native source.
func nativeSource() (source.Source, string) { return native.New(), "" }
