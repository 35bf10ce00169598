//go:build !unix

package files

// Nonblock is the flag with which opening a file does not wait.
const Nonblock = 0
