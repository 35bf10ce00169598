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

// Constants of ELF. They are here because package debug/elf would link DWARF into programs.
const (
	elfClass64 = 2 // 64-bit file
	ptLoad     = 1 // segment that the kernel maps
	pfWrite    = 2 // writable segment
)

// Image is the mapped ELF file, executable or shared library, that contains this code. Its
// symbols may be stripped. Its program headers never are, because the kernel needs them to
// map the file.
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

var imageMark byte // a variable in the image's writable segment

// FindImage finds the mapped file around an address of its code, which also has this package.
func FindImage(pc uintptr) (*Image, error) {
	base, err := fileBase(pc)
	if err != nil {
		return nil, err
	}
	var head [8]uint64 // Elf64_Ehdr
	if err := mem.Read(base, head[:]); err != nil {
		return nil, err
	}
	if uint32(head[0]) != 0x464c457f || byte(head[0]>>32) != elfClass64 {
		return nil, fmt.Errorf("no ELF header at %#x", base)
	}
	phoff, phsize, phnum := uintptr(head[4]), uintptr(head[6]>>48), int(uint16(head[7]))
	// e_phentsize and e_phnum are the half words at 54 and 56.
	if phsize != 56 || phnum == 0 || phnum > 128 {
		return nil, fmt.Errorf("ELF header at %#x has %d program headers of %d bytes", base, phnum, phsize)
	}
	img := new(Image)
	found := false
	for i := range phnum {
		var ph [7]uint64 // Elf64_Phdr
		if err := mem.Read(base+phoff+uintptr(i)*phsize, ph[:]); err != nil {
			return nil, err
		}
		typ, flags := uint32(ph[0]), uint32(ph[0]>>32)
		offset, vaddr, memsz := ph[1], uintptr(ph[2]), uintptr(ph[5])
		if typ == ptLoad && offset == 0 {
			img.Bias, found = base-vaddr, true
		}
		if typ == ptLoad && flags&pfWrite != 0 {
			img.Writable = append(img.Writable, Span{vaddr, vaddr + memsz})
		}
	}
	for i, w := range img.Writable {
		img.Writable[i] = Span{(img.Bias + w.Lo + 7) &^ 7, (img.Bias + w.Hi) &^ 7}
	}
	if !found || img.Static(uint64(uintptr(unsafe.Pointer(&imageMark)))) == 0 {
		return nil, errors.New("the program's writable segment is not where its program headers say")
	}
	return img, nil
}

// fileBase returns the address at which the file that is mapped at pc begins.
func fileBase(pc uintptr) (uintptr, error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	starts := map[string]uint64{} // where a file's first byte is mapped, by device and inode
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // 55d0c5e00000-55d0c5e9f000 r-xp 00001000 08:01 1573 /bin/a
		if len(f) < 5 {
			continue
		}
		first, last, _ := strings.Cut(f[0], "-")
		from, err := strconv.ParseUint(first, 16, 64)
		to, err2 := strconv.ParseUint(last, 16, 64)
		if err != nil || err2 != nil || from > uint64(pc) {
			continue
		}
		// Take the nearest one below pc: a file may be mapped more than once.
		file := f[3] + " " + f[4]
		if strings.Trim(f[2], "0") == "" {
			starts[file] = from
		}
		if start := starts[file]; f[4] != "0" && start != 0 && uint64(pc) < to {
			return uintptr(start), nil
		}
	}
	return 0, fmt.Errorf("/proc/self/maps shows no file for the code at %#x", pc)
}
