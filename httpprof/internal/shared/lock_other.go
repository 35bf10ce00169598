//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package shared

import (
	"errors"
	"os"
)

// lock fails: this system has no flock, so folders are not swept.
func lock(*os.File) error { return errors.ErrUnsupported }

func mine(os.FileInfo) bool { return false }

func abandoned(string) bool { return false }
