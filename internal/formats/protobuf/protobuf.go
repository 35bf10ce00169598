// Package protobuf appends the fields of protocol buffers' messages to bytes, for the formats that
// are such messages.
package protobuf

import "encoding/binary"

// Varint appends a number without a field, as lists of numbers have it.
func Varint(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }

// Number appends a field that is a number, unless it is 0.
func Number(b []byte, field int, n uint64) []byte {
	if n == 0 {
		return b
	}
	return Varint(Varint(b, uint64(field)<<3), n)
}

// Fixed appends a field that is a number of 8 bytes, unless it is 0.
func Fixed(b []byte, field int, n uint64) []byte {
	if n == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(Varint(b, uint64(field)<<3|1), n)
}

// Message appends a field that is a message, a list of numbers, or a text, even if it is empty.
func Message[T []byte | string](b []byte, field int, content T) []byte {
	b = Varint(b, uint64(field)<<3|2)
	b = Varint(b, uint64(len(content)))
	return append(b, content...)
}
