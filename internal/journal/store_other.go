//go:build !amd64

package journal

import "sync/atomic"

// store stores a word that makes a change take effect. The store is atomic and becomes
// visible after all earlier stores.
func store(p *uint64, v uint64) {
	storeFast(p, v)
	if AfterStore != nil {
		AfterStore()
	}
}

// storeFast is like store, but without the hook.
func storeFast(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
