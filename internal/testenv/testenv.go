// Package testenv is what the tests of several packages share: programs of other
// projects that a machine may not have, files in memory, counts of allocations
// and of stops of the world, and what the tests need that kill programs.
package testenv
