//go:build !linux || !(amd64 || arm64)

package sampler

import (
	"runtime"

	"github.com/gotach/profiler/sampler/internal/source"
)

// nativeSource says why this build has no native source.
func nativeSource() (source.Source, string) {
	return nil, "there is no native source for " + runtime.GOOS + "/" + runtime.GOARCH
}

// room is not known here.
func room() error { return nil }
