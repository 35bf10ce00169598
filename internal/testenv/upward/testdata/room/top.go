// Package room is read by a test. What bottom.go says first is not the order.
//
// # Files
//
//   - top.go is the first one.
//   - middle.go uses bottom.go, and top.go.
//   - bottom.go
//
// # Others
//
// nameless.go is not among them.
package room

// Top uses a definition below.
func Top() int { return middle() }

type part struct{ size int }
