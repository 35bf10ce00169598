package syscalls

import "golang.org/x/sys/unix"

var machine = []Call{{unix.SYS_ARCH_PRCTL, "arch_prctl", ""}}

var fileStatus = []Call{
	{unix.SYS_FSTAT, "fstat", "read the kind and size of files"},
	{unix.SYS_NEWFSTATAT, "newfstatat", "read the kind and size of files"},
}
