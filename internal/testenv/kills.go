package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Kills returns how many programs a test kills: GOTACH_KILLS, or 40, or 10 with
// -short.
func Kills(t testing.TB) int {
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

// KeepKilled copies a recovered file, if there is one, to the directory
// $GOTACH_KILLED_FILES, so that other readers can be tried on it.
func KeepKilled(t testing.TB, path string) {
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

// Mix is a hash: it maps equal numbers to equal numbers that look random. Package
// rapid prefers small numbers, but the times of kills must be spread evenly.
func Mix(x uint64) uint64 {
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}
