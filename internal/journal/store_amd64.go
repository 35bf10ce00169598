package journal

// store makes a change count. On amd64 stores become visible in their order, and
// an aligned one whole, so it needs none of the cost of an atomic one. It is not
// inlined, or the compiler could leave out one that is followed by another.
//
//go:noinline
func store(p *uint64, v uint64) {
	*p = v
	if AfterStore != nil {
		AfterStore()
	}
}

// storeFast is store without the hook and the call, for changes that are not
// followed by another in the function that makes them.
func storeFast(p *uint64, v uint64) { *p = v }
