//go:build linux && (amd64 || arm64)

// Package goruntime is what is known of Go's runtime, without asking it: where the fields of its
// structs are, what its statuses and wait reasons mean, where its variables and tables lie in a
// program, and how a stack is read. It knows no session and no handler.
//
// A View is what a walk needs of it. It has no Go pointers. Functions that take a View, or are
// methods of one, are for the signal handler too: they are nosplit and norace, allocate nothing and
// bound their loops. The others are for ordinary goroutines.
//
// For a new version of Go add it to the line go:generate in layout.go and run go generate. The
// self-check at Start finds what the table has wrong (package native).
//
// # Files
//
//   - find.go finds the layout of a version, and the lists of goroutines and Ps among the program's
//     variables
//   - functab.go reads the tables of functions and return addresses, and publishes them to a View
//   - image.go finds the program's variables
//   - frames.go walks stacks
//   - view.go is the View
//   - code.go reads the tables of one module
//   - waitkind.go says what wait reasons mean
//   - leaf_amd64.go and leaf_arm64.go tell from machine code where the return address is, and what
//     a call calls
//   - layout_gen.go is the table of offsets, by version of Go
//   - layout.go has the names of the offsets, statuses, and the places where a return address can be
//   - godebug.go reads GODEBUG as the runtime does
package goruntime
