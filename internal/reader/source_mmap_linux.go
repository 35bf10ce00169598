package reader

import "golang.org/x/sys/unix"

// The format's document recommends huge pages for files above 32 MB. It also recommends to read
// all pages in while mapping, but then many files that are open at once, or one large one, would
// take memory of their size. The pages are read in order anyway, and the kernel reads ahead.
const hugeFrom = 32 << 20

func mapFlags(int64) int { return unix.MAP_PRIVATE }

func adviseHuge(data []byte) {
	if len(data) > hugeFrom {
		_ = unix.Madvise(data, unix.MADV_HUGEPAGE)
	}
}
