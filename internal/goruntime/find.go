//go:build linux && (amd64 || arm64)

package goruntime

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gotach/profiler/internal/mem"
)

// The runtime's lists of all goroutines and of all Ps, runtime.allgs and runtime.allp, are
// found without symbols. They are the slices among the program's variables whose arrays hold
// goroutines, or a P, that we know. Variables without pointers are not searched: in programs
// that link crypto they take 32 MB. The search reads all memory that it reaches through such
// a slice with process_vm_readv, so a wrong candidate cannot fault.

// SliceAt is the address of a slice header.
type SliceAt uintptr

// Header reads a slice's pointer, length and capacity.
func (a SliceAt) Header() (ptr uintptr, n, c uint64) {
	return uintptr(mem.Load64(uintptr(a))), mem.Load64(uintptr(a) + 8), mem.Load64(uintptr(a) + 16)
}

// findSlices searches variables for slices of at most most elements whose arrays hold all
// words of want.
func findSlices(variables []Span, want []uintptr, most uint64, over func(doing string) error) ([]SliceAt, error) {
	const step = 1 << 13
	var found []SliceAt
	words := make([]uint64, step+2)
	for _, w := range variables {
		for at := w.Lo; at < w.Hi; at += step * 8 {
			if err := over("searching the program's variables"); err != nil {
				return nil, err
			}
			part := words[:min(step+2, int(w.Hi-at)/8)]
			if err := mem.ReadBig(at, part); err != nil {
				return nil, err
			}
			for i := 0; i+2 < len(part) && i < step; i++ {
				ptr, n, c := part[i], part[i+1], part[i+2]
				if n < uint64(len(want)) || n > most || c < n || c > 2*most || ptr&7 != 0 || ptr < 4096 || ptr>>56 != 0 {
					continue
				}
				if holds(uintptr(ptr), int(n), want, over) {
					found = append(found, SliceAt(at+uintptr(i)*8))
				}
			}
		}
	}
	return found, nil
}

// holds reports whether the n words of an array include all of want. The search calls it for
// thousands of arrays, and most have none of them.
func holds(array uintptr, n int, want []uintptr, over func(doing string) error) bool {
	lo, hi := uint64(slices.Min(want)), uint64(slices.Max(want))
	var seen map[uint64]bool
	var buf [512]uint64
	for n > 0 && len(seen) < len(want) {
		k := min(n, len(buf))
		if mem.Read(array, buf[:k]) != nil {
			return false
		}
		for _, w := range buf[:k] {
			switch {
			case w < 4096:
				return false // not a list of pointers
			case w >= lo && w <= hi && slices.Contains(want, uintptr(w)):
				if seen == nil {
					seen = make(map[uint64]bool, len(want))
				}
				seen[w] = true
			}
		}
		array, n = array+uintptr(k)*8, n-k
		if n&(1<<17-1) < len(buf) && over("") != nil {
			return false
		}
	}
	return len(seen) == len(want)
}

// lastWait is the longest wait between two searches: the program may change its lists meanwhile.
const lastWait = 100 * time.Millisecond

// search calls find until it has found one list.
func search(what string, over func(doing string) error, find func() ([]SliceAt, error)) (SliceAt, error) {
	for wait := time.Millisecond; ; wait *= 2 {
		found, err := find()
		switch {
		case err != nil:
			return 0, err
		case len(found) == 1:
			return found[0], nil
		case wait > lastWait || over("") != nil:
			return 0, fmt.Errorf("found %d lists of %s, not 1", len(found), what)
		}
		time.Sleep(wait)
	}
}

// FindAllgs finds runtime.allgs by known goroutines. While the collector marks, it has a
// second slice of the same array (work.stackRoots), whose capacity is only its length. So
// if there are several, allgs is the one with the largest capacity.
func FindAllgs(variables []Span, known []uintptr, most uint64, over func(doing string) error) (SliceAt, error) {
	return search("goroutines", over, func() (largest []SliceAt, err error) {
		found, err := findSlices(variables, known, most, over)
		capacity := uint64(0)
		for _, a := range found {
			switch _, _, c := a.Header(); {
			case c > capacity:
				largest, capacity = []SliceAt{a}, c
			case c == capacity:
				largest = append(largest, a)
			}
		}
		return largest, err
	})
}

// FindAllp finds runtime.allp by the caller's own P. It leaves out the copy of allp that the
// first M, which is a variable, may have (m.allpSnapshot).
func FindAllp(variables []Span, l *Layout, over func(doing string) error) (SliceAt, error) {
	return search("Ps", over, func() ([]SliceAt, error) {
		own := OwnP(l)
		if own == 0 {
			return nil, errors.New("the P of a running thread is not where it should be")
		}
		found, err := findSlices(variables, []uintptr{own}, 1<<16, over)
		return slices.DeleteFunc(found, func(a SliceAt) bool {
			ptr, n, _ := a.Header()
			m := uintptr(a) - l.mAllp
			if g0 := mem.ReadWord(m + l.MG0); g0 > 4096 && mem.ReadWord(uintptr(g0)+l.GM) == uint64(m) {
				return true
			}
			return !a.counts() || !AreProcs(ptr, int(n), l)
		}), err
	})
}

// counts reports whether the slice has as many elements as there are Ps. The program may change
// their number between the two readings, so it tries often.
func (a SliceAt) counts() bool {
	for range 100 {
		if _, n, _ := a.Header(); int(n) == runtime.GOMAXPROCS(0) {
			return true
		}
	}
	return false
}

// AreProcs reports whether the array holds Ps: the id of element i must be i.
func AreProcs(array uintptr, n int, l *Layout) bool {
	procs := make([]uint64, n)
	if mem.ReadBig(array, procs) != nil {
		return false
	}
	for i, p := range procs {
		var w [1]uint64
		if mem.Read(uintptr(p)+l.PID, w[:]) != nil || int32(w[0]) != int32(i) {
			return false
		}
	}
	return true
}

//go:norace
//go:nocheckptr
func OwnP(l *Layout) uintptr {
	return uintptr(mem.ReadWord(uintptr(mem.ReadWord(mem.Getg()+l.GM)) + l.MP))
}

// LayoutOf returns the layout for a version string as runtime.Version returns it.
func LayoutOf(version string) (*Layout, error) {
	if l := Layouts[Release(version)]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("the runtime of Go version %q is not known here", version)
}
