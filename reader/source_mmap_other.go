//go:build aix || darwin || dragonfly || freebsd || netbsd || openbsd

package reader

const mapPopulate = 0

func adviseHuge([]byte) {}
