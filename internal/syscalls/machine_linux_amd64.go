package syscalls

import "golang.org/x/sys/unix"

var machine = []Call{{unix.SYS_ARCH_PRCTL, "arch_prctl", ""}}

var fileStatus = []Call{
	{unix.SYS_FSTAT, "fstat", ""},
	{unix.SYS_NEWFSTATAT, "newfstatat", ""},
}
