//go:build !amd64

package journal

import "sync/atomic"

// store makes a change count: whole, and after all stores before it.
func store(p *uint64, v uint64) {
	storeFast(p, v)
	if AfterStore != nil {
		AfterStore()
	}
}

// storeFast is store without the hook.
func storeFast(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
