package reader

import "golang.org/x/sys/unix"

// The format's document recommends both: to read in all pages while mapping, and to use
// huge pages above 32 MB. A file above populateUpTo bytes is not read in, because that
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
