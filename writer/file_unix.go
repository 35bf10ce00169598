//go:build unix

package writer

import (
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// trustedOwner reports whether a file belongs to the user or to root.
func trustedOwner(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}
