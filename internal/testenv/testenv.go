// Package testenv has helpers for the tests of several packages. It finds programs
// of other projects that a machine may not have. It provides files in memory, counts
// allocations and stops of the world, and helps tests that kill programs.
package testenv
