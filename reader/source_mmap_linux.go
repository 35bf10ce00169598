package reader

import "golang.org/x/sys/unix"

const mapPopulate = unix.MAP_POPULATE

// hugeFile is the size from which on huge pages are asked for, as the format
// document has it.
const hugeFile = 32 << 20

func adviseHuge(data []byte) {
	if len(data) > hugeFile {
		_ = unix.Madvise(data, unix.MADV_HUGEPAGE)
	}
}
