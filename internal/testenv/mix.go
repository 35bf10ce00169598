package testenv

// Mix is a hash: it maps equal numbers to equal numbers that look random. Package
// rapid prefers small numbers, but the times of kills must be spread evenly.
func Mix(x uint64) uint64 {
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}
