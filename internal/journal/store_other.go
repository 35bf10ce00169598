//go:build !amd64

package journal

import "sync/atomic"

// store makes a change count: whole, and after all stores before it.
func store(p *uint64, v uint64) {
	atomic.StoreUint64(p, v)
	if AfterStore != nil {
		AfterStore()
	}
}
