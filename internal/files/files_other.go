//go:build !unix

package files

import "io/fs"

// TrustedOwner reports whether a file belongs to the user or to root, where files have owners.
func TrustedOwner(fs.FileInfo) bool { return true }

// Nonblock is the flag with which opening a file does not wait.
const Nonblock = 0
