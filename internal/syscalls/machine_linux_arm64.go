package syscalls

import "golang.org/x/sys/unix"

var machine []Call

var fileStatus = []Call{
	{unix.SYS_FSTAT, "fstat", "read the kind and size of files"},
	{unix.SYS_FSTATAT, "fstatat", "read the kind and size of files"},
}
