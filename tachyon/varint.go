package tachyon

import "encoding/binary"

// AppendUvarint appends v as LEB128.
func AppendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendSvarint appends v as zigzag LEB128.
func AppendSvarint(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// Uvarint reads a LEB128 number of at most 64 bits from the start of b. n is
// its length in bytes; n == 0 says that b ends inside it, n < 0 that it is
// longer than 64 bits.
func Uvarint(b []byte) (v uint64, n int) { return binary.Uvarint(b) }

// Svarint reads a zigzag LEB128 number; n is as for [Uvarint].
func Svarint(b []byte) (v int64, n int) { return binary.Varint(b) }
