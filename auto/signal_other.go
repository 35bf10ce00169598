//go:build !unix

package auto

// stopOnSignal does nothing: here a signal cannot be given back to the program
// once it is caught, and a program that no longer dies of Ctrl-C is worse than
// a profile that is not finished.
func stopOnSignal() (end func()) { return func() {} }
