//go:build linux && (amd64 || arm64)

package native

import "testing"

// TestPay pays the intervals of one thread.
func TestPay(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name          string
		pool, carried int64
		used          uint64 // by the thread since its last sample
		interval      int64
		random, first bool
		on            int64
		pooled, left  int64 // pool and carried afterwards
	}{
		{"all of it", 0, 0, ms, ms, true, false, ms, 0, 0},
		{"more than it", 0, 0, 3 * ms, ms, true, false, ms, 2 * ms, 0},
		{"from the pool", 5 * ms, 0, ms / 4, ms, true, true, ms, 17 * ms / 4, 0},
		{"a debt", 0, 0, ms / 4, ms, true, true, ms, -3 * ms / 4, 0},
		{"a debt too high, first", -2 * ms, 0, ms / 4, ms, true, true, ms / 4, -2 * ms, 0},
		{"a debt too high, little missing", -2 * ms, 0, 3 * ms / 4, ms, true, false, ms, -2 * ms, -ms / 4},
		{"a debt too high, much missing", -2 * ms, 0, ms / 4, ms, true, false, 0, -2 * ms, ms / 4},
		{"carried", -2 * ms, ms / 4, ms / 2, ms, true, false, ms, -2 * ms, -ms / 4},
		{"stalled", 50 * ms, 0, ms, 70 * ms, true, false, ms, 50 * ms, 0},
		{"stalled, first", 50 * ms, 0, ms, 70 * ms, true, true, ms, 50 * ms, 0},
		{"blocked in a system call", 50 * ms, 0, 1000, 70 * ms, false, false, 0, 50 * ms, 1000},
		{"half of a system call", 50 * ms, 0, 35 * ms, 70 * ms, false, false, 35 * ms, 50 * ms, 0},
	} {
		l := newLedger(ms)
		l.pool = c.pool
		*l.thread(7) = thread{clock: 100 * ms, carried: c.carried}
		on := l.pay(7, 100*ms+c.used, c.interval, c.random, c.first)
		if th := l.thread(7); on != c.on || l.pool != c.pooled || th.carried != c.left || l.paid != on || !th.ran || !th.hit {
			t.Errorf("%s: on the CPU for %d, want %d; pool %d, want %d; %d carried, want %d", c.name, on, c.on, l.pool, c.pooled, th.carried, c.left)
		}
	}
}

// TestPayOrder has records of one thread that are not in the order of their clocks, and passes of the
// drain on it. No CPU time may count twice.
func TestPayOrder(t *testing.T) {
	const ms = 1_000_000
	l := newLedger(ms)
	l.thread(7).clock = 100 * ms
	l.thread(7).passes = 2 * ms
	l.pay(7, 105*ms, ms, true, false) // 5 ms, 2 of them the drain's
	l.pay(7, 104*ms, ms, true, true)
	l.pay(7, 106*ms, ms, true, false)
	if got := l.paid + l.pool; got != 4*ms {
		t.Errorf("%d ns paid or in the pool, want %d", got, 4*ms)
	}
	if on := l.pay(8, 0, ms, true, false); on != ms {
		t.Errorf("without a clock %d ns are on the CPU, want all", on)
	}
}
