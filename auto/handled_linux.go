package auto

import (
	"encoding/binary"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"syscall"
)

// handledElsewhere reports whether the program itself has asked os/signal for sig.
// This package must have called signal.Stop before. known is false if the answer
// cannot be found out.
//
// If the program handles the signal, raising it again would deliver it twice. Many
// servers take a second SIGTERM as "stop at once". os/signal counts the channels
// for each signal in an unexported array of int64 (handlers.ref in
// os/signal/signal.go, Go 1.25 to 1.27). This function searches for the array. It
// adds five channels for SIGINT and three for SIGTERM, and removes them again. Then
// it looks among the program's variables for the two counters that rose by five and
// three and fell again, at the distance of the two signal numbers. It reads memory
// through /proc/self/mem, so that a wrong address gives an error and not a fault.
func handledElsewhere(sig syscall.Signal) (handled, known bool) {
	const probesINT, probesTERM = 5, 3
	before, ok1 := variables()
	var probes []chan os.Signal
	probe := func(sig os.Signal, n int) {
		for range n {
			c := make(chan os.Signal, 1)
			signal.Notify(c, sig)
			probes = append(probes, c)
		}
	}
	probe(syscall.SIGINT, probesINT)
	probe(syscall.SIGTERM, probesTERM)
	during, ok2 := variables()
	for _, c := range probes {
		signal.Stop(c)
	}
	after, ok3 := variables()
	if !ok1 || !ok2 || !ok3 || len(before) != len(during) || len(before) != len(after) {
		return false, false
	}
	isCount := func(i int, probes uint64) bool {
		n := word(before, i)
		return n < 1<<16 && word(during, i) == n+probes && word(after, i) == n
	}
	const apart = int(syscall.SIGTERM - syscall.SIGINT)
	found := -1
	for i := 0; i < len(before)/8-apart; i++ {
		if isCount(i, probesINT) && isCount(i+apart, probesTERM) {
			if found >= 0 {
				return false, false
			}
			found = i
		}
	}
	if found < 0 {
		return false, false
	}
	return word(before, found+int(sig-syscall.SIGINT)) > 0, true
}

func word(b []byte, i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }

// variables returns a copy of the writable memory around a variable of this package.
// The linker places all variables that hold pointers and start as zero next to each
// other (.bss), including those of os/signal. That section has some 100 KB in a small
// program and 1 MB in a very large one.
func variables() ([]byte, bool) {
	const around = 2 << 20
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, false
	}
	ours := uint64(reflect.ValueOf(&session).Pointer())
	var from, to uint64 // adjacent writable mappings, taken as one range
	for line := range strings.Lines(string(maps)) {
		lo, hi, writable := parseMapping(line)
		if writable && lo == to {
			to = hi
			continue
		}
		if from <= ours && ours < to {
			break
		}
		from, to = 0, 0
		if writable {
			from, to = lo, hi
		}
	}
	if !(from <= ours && ours < to) {
		return nil, false
	}
	from, to = max(from, ours&^7-around), min(to, ours&^7+around)
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil, false
	}
	defer mem.Close()
	b := make([]byte, to-from)
	_, err = mem.ReadAt(b, int64(from))
	return b, err == nil
}

// parseMapping reads a line such as "c000000000-c000400000 rw-p 00000000 00:00 0".
func parseMapping(line string) (lo, hi uint64, writable bool) {
	span, rest, _ := strings.Cut(line, " ")
	a, b, _ := strings.Cut(span, "-")
	lo, err1 := strconv.ParseUint(a, 16, 64)
	hi, err2 := strconv.ParseUint(b, 16, 64)
	return lo, hi, err1 == nil && err2 == nil && strings.HasPrefix(rest, "rw")
}
