//go:build linux && (amd64 || arm64)

package native

import "unsafe"

// handlerPC is the entry that the kernel calls. restorerPC is the code that the handler
// returns to.
var handlerPC, restorerPC uintptr

// entry returns the code address of a function.
func entry[F any](f F) uintptr {
	return **(**uintptr)(unsafe.Pointer(&f))
}
