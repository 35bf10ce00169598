package portable

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32  = windows.NewLazySystemDLL("kernel32.dll")
	counter   = kernel32.NewProc("QueryPerformanceCounter")
	frequency = sync.OnceValue(func() float64 {
		var perSecond int64
		kernel32.NewProc("QueryPerformanceFrequency").Call(uintptr(unsafe.Pointer(&perSecond)))
		return float64(perSecond)
	})
)

// wallTime returns the time of a clock that can measure one look. Go's clock on Windows moves by up to 16 ms at a
// time: the shortest of some looks would be 0.
func wallTime() time.Duration {
	var ticks int64
	counter.Call(uintptr(unsafe.Pointer(&ticks)))
	return time.Duration(float64(ticks) / frequency() * float64(time.Second))
}
