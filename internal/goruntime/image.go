//go:build linux && (amd64 || arm64)

package goruntime

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gotach/profiler/internal/mem"
)

// Image is the mapped ELF file, executable or shared library, that contains this code. Its
// symbols may be stripped.
type Image struct {
	Bias     uintptr // the address of link-time address 0
	Writable []Span  // data and bss
}

// Static returns the link-time address of a variable, 0 if an address is that of something else.
func (img *Image) Static(addr uint64) uint64 {
	if slices.ContainsFunc(img.Writable, func(s Span) bool { return uintptr(addr) >= s.Lo && uintptr(addr) < s.Hi }) {
		return addr - uint64(img.Bias)
	}
	return 0
}

var imageMark byte // a variable of the image

// FindImage finds the mapped file around an address of its code, which also has this package. Its
// variables are the writable memory around one of them: bss comes right after data.
func FindImage(pc uintptr) (*Image, error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	mark := uintptr(unsafe.Pointer(&imageMark))
	base, variables := uintptr(0), Span{}
	starts := map[string]uintptr{} // where a file's first byte is mapped, by device and inode
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // 55d0c5e00000-55d0c5e9f000 r-xp 00001000 08:01 1573 /bin/a
		if len(f) < 5 {
			continue
		}
		first, last, _ := strings.Cut(f[0], "-")
		from, err := strconv.ParseUint(first, 16, 64)
		to, err2 := strconv.ParseUint(last, 16, 64)
		if err != nil || err2 != nil {
			continue
		}
		part := Span{uintptr(from), uintptr(to)}
		// Take the nearest one below pc: a file may be mapped more than once.
		file := f[3] + " " + f[4]
		if strings.Trim(f[2], "0") == "" {
			starts[file] = part.Lo
		}
		if f[4] != "0" && pc >= part.Lo && pc < part.Hi {
			base = starts[file]
		}
		switch {
		case f[1][1] != 'w' || strings.HasSuffix(line, "[heap]\n"):
		case variables.Hi == part.Lo:
			variables.Hi = part.Hi
		case variables.Hi <= mark:
			variables = part
		}
	}
	var head [3]uint64 // the beginning of an Elf64_Ehdr
	if base == 0 || mem.Read(base, head[:]) != nil || uint32(head[0]) != 0x464c457f {
		return nil, fmt.Errorf("/proc/self/maps shows no ELF file for the code at %#x", pc)
	}
	if mark < variables.Lo || mark >= variables.Hi {
		return nil, errors.New("/proc/self/maps does not show the program's variables")
	}
	img := &Image{Writable: []Span{variables}}
	const executable = 2 // the type of a file that is mapped at its link-time addresses (ET_EXEC)
	if uint16(head[2]) != executable {
		img.Bias = base
	}
	return img, nil
}
