//go:build !linux || !(amd64 || arm64) || gotach_portable

package sampler

import (
	"errors"
	"runtime"

	"github.com/gotach/profiler/sampler/internal/source"
)

// nativeSource returns the reason why this build has no native source.
func nativeSource() (source.Source, error) {
	return nil, errors.New("this build for " + runtime.GOOS + "/" + runtime.GOARCH + " has no native source")
}

// room returns nil: the number of threads is not checked on this system.
func room() error { return nil }
