package syscalls

import "golang.org/x/sys/unix"

var machine []Call

var fileStatus = []Call{
	{unix.SYS_FSTAT, "fstat", ""},
	{unix.SYS_FSTATAT, "fstatat", ""},
}
