//go:build darwin || dragonfly || freebsd || netbsd

package writer

import "testing"

func readOnly(*testing.T, string) string { return notPermitted }
