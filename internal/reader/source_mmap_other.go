//go:build aix || darwin || dragonfly || freebsd || netbsd || openbsd

package reader

import "golang.org/x/sys/unix"

func mapFlags(int64) int { return unix.MAP_PRIVATE }

func adviseHuge([]byte) {}
