//go:build darwin || dragonfly || freebsd || linux || netbsd

// Package kills is what tests have in common that kill programs, and look at what
// these leave behind.
package kills

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Count returns how many programs a test is to kill: GOTACH_KILLS, or 40, or 10
// with -short.
func Count(t testing.TB) int {
	t.Helper()
	if v := os.Getenv("GOTACH_KILLS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 10
	}
	return 40
}

// Keep copies a recovered file, if there is one, to the directory that
// GOTACH_KILLED_FILES names, for other readers to judge.
func Keep(t testing.TB, path string) {
	t.Helper()
	dir := os.Getenv("GOTACH_KILLED_FILES")
	if dir == "" {
		return
	}
	if b, err := os.ReadFile(path); err == nil {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Share maps a file, made if there is none, in which a program tells the one that
// kills it how far it has come. It outlives the program, and may be unmapped.
func Share(path string, size int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Mix makes of a number one that looks random, the same each time: rapid prefers
// small numbers, and when to kill is to be spread evenly.
func Mix(x uint64) uint64 {
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}
