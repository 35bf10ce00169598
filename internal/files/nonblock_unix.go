//go:build unix

package files

import "syscall"

// Nonblock is the flag with which opening a file does not wait.
const Nonblock = syscall.O_NONBLOCK
