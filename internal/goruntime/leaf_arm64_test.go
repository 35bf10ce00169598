//go:build linux

package goruntime

import (
	"testing"
	"unsafe"

	"github.com/gotach/profiler/internal/testenv"
)

// Where the return address is at each instruction of two functions that the compiler made, one with a small frame and one with a large one.
func TestReadLeaf(t *testing.T) {
	list := []struct {
		code  uint32
		delta int32 // before it
		want  LeafState
	}{
		{0xf81e0ffe, 0, LeafAtSP},    // MOVD.W R30, -32(RSP)
		{0xf81f83fd, 32, LeafAtSP},   // MOVD R29, -8(RSP)
		{0xd10023fd, 32, LeafAtSP},   // SUB $8, RSP, R29
		{0x94000170, 32, LeafFramed}, // CALL
		{0x91000400, 32, LeafFramed}, // ADD $1, R0, R0
		{0xf85f83fd, 32, LeafFramed}, // MOVD -8(RSP), R29
		{0xf84207fe, 32, LeafAtSP1},  // MOVD.P 32(RSP), R30
		{0xd65f03c0, 0, LeafAtSP},    // RET

		{0xd106c3f4, 0, LeafAtSP},     // SUB $432, RSP, R20
		{0xa93ffa9d, 0, LeafAtSP},     // STP (R29, R30), -8(R20)
		{0x9100029f, 0, LeafAtSP},     // MOVD R20, RSP
		{0xd10023fd, 432, LeafAtSP},   // SUB $8, RSP, R29
		{0xf100003f, 432, LeafFramed}, // CMP $0, R1
		{0xa97ffbfd, 432, LeafFramed}, // LDP -8(RSP), (R29, R30)
		{0x9106c3ff, 432, LeafAtSP},   // ADD $432, RSP, RSP
		{0xd65f03c0, 0, LeafAtSP},     // RET
	}
	code := make([]uint32, len(list)+2)
	for i := range list {
		code[i] = list[i].code
	}
	for i, tt := range list {
		testenv.Same(t, i, ReadLeaf(uintptr(unsafe.Pointer(&code[i])), tt.delta), tt.want)
	}
}
