//go:build unix && !(linux && (amd64 || arm64))

package hold

import (
	"errors"
	"syscall"
	"time"
)

// First returns an error: there is no handler for this system.
func First(time.Duration, func(), ...syscall.Signal) (end func(), err error) {
	return nil, errors.ErrUnsupported
}
