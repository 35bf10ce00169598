package reader

import "golang.org/x/sys/unix"

// The format's document asks for these: all pages are faulted in while mapping, and
// huge pages are used above 32 MB. A file of gigabytes is not populated, since that
// takes seconds even if only its tables are needed.
const (
	populateUpTo = 1 << 30
	hugeFrom     = 32 << 20
)

func mapFlags(size int64) int {
	if size > populateUpTo {
		return unix.MAP_PRIVATE
	}
	return unix.MAP_PRIVATE | unix.MAP_POPULATE
}

func adviseHuge(data []byte) {
	if len(data) > hugeFrom {
		_ = unix.Madvise(data, unix.MADV_HUGEPAGE)
	}
}
