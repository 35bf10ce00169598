package journal

// store stores a word that makes a change take effect. On amd64 stores become visible in
// program order, and an aligned store is atomic, so a plain store is enough and cheaper than
// sync/atomic. store is not inlined. If it were, the compiler could drop a store that is
// followed by another one.
//
//go:noinline
func store(p *uint64, v uint64) {
	*p = v
	if AfterStore != nil {
		AfterStore()
	}
}

// storeFast is like store, but without the hook and the call. It is for a store that is the
// last one in its function.
func storeFast(p *uint64, v uint64) { *p = v }
