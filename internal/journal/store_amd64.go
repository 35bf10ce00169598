package journal

// store makes a change count. On amd64 stores become visible in their order, and
// an aligned one whole, so it needs none of the cost of an atomic one.
//
//go:noinline
func store(p *uint64, v uint64) {
	*p = v
	if AfterStore != nil {
		AfterStore()
	}
}
