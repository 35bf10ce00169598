//go:build unix

package push

import (
	"io/fs"
	"syscall"
)

// owner returns the user to whom a file belongs.
func owner(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// oneName reports whether a file has one name.
func oneName(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink == 1
}
