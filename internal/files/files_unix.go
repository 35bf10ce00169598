//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"
)

// TrustedOwner reports whether a file belongs to the user or to root.
func TrustedOwner(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// Nonblock is the flag with which opening a file does not wait.
const Nonblock = syscall.O_NONBLOCK
