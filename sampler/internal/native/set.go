//go:build linux && (amd64 || arm64)

package native

import "github.com/gotach/profiler/internal/mem"

// A set has words, none of which is 0, in memory outside the Go heap. The drain adds words while
// handlers look for some.
type set struct {
	at    uintptr
	words uint64 // room, a power of two; open addressing
}

// setPlaces is the number of places in which a word may be.
const setPlaces = 16

// place returns the address of the nth place of a word.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (t *set) place(word, n uint64) uintptr {
	return t.at + uintptr((word*0x9e3779b97f4a7c15>>32+n)&(t.words-1))*8
}

//go:nosplit
//go:norace
//go:nocheckptr
func (t *set) has(word uint64) bool {
	for i := uint64(0); i < setPlaces; i++ {
		switch mem.LoadAcquire(t.place(word, i)) {
		case word:
			return true
		case 0:
			return false
		}
	}
	return false
}

// add reports whether there is room for a word.
func (t *set) add(word uint64) bool {
	for i := range uint64(setPlaces) {
		switch at := t.place(word, i); mem.Load64(at) {
		case 0:
			mem.StoreRelease(at, word)
			return true
		case word:
			return true
		}
	}
	return false
}

func (t *set) clear() {
	for i := range uintptr(t.words) {
		mem.StoreRelease(t.at+i*8, 0)
	}
}
