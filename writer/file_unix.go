//go:build unix

package writer

import "syscall"

const noFollow = syscall.O_NOFOLLOW
