//go:build !unix

package auto

// stopOnSignal does nothing. On these systems a caught signal cannot be raised
// again for the program, and a program that no longer ends on Ctrl-C is worse than
// an unfinished profile.
func stopOnSignal() (end func()) { return func() {} }
