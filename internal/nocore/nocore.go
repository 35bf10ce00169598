// Package nocore finds how long goroutines ran for Go while the kernel gave their threads no core,
// for the sources of a session and for recordings from outside.
package nocore

import (
	"math"
	"time"
)

// A Balance compares two figures of all goroutines of a go statement: for how long ticks found them
// running, and for how long samples say so. All CPU time has a sample sooner or later, so what is
// left is time without a core. Ticks find one goroutine that runs for less than the time between
// two of them too rarely to say how long it ran, but all together often enough.
type Balance struct {
	open    time.Duration // found running, and no sample says so
	squares float64       // of each figure, in s²
}

// late is how much later than at the tick CPU time may be known: two ticks of a kernel that has 100
// a second.
const late = 20 * time.Millisecond

// Balances are those of go statements, by the address of the code after each. Its zero value has
// none.
type Balances struct{ of map[uint64]*Balance }

// most bounds the number of balances: a program may make code, and what another process has in its
// memory may be anything.
const most = 1 << 14

// Of returns the balance of a go statement. After the first ones all others share one.
func (b *Balances) Of(pc uint64) *Balance {
	if b.of == nil {
		b.of = make(map[uint64]*Balance)
	}
	if b.of[pc] == nil && len(b.of) >= most {
		pc = 0
	}
	if b.of[pc] == nil {
		b.of[pc] = new(Balance)
	}
	return b.of[pc]
}

// Found is told that a tick found a goroutine running. t is the time since the tick before.
func (b *Balance) Found(t time.Duration) { b.add(t, t) }

// Used is told how much CPU time an interrupt of a thread found that a goroutine used.
func (b *Balance) Used(t time.Duration) { b.add(-t, t) }

// Told is told that a sample says that a goroutine ran for a time without a core.
func (b *Balance) Told(t time.Duration) { b.add(-t, 0) }

func (b *Balance) add(t, chance time.Duration) {
	b.open += t
	b.squares += chance.Seconds() * chance.Seconds()
}

// Due returns for how long more samples should say that goroutines had no core. It is less than
// what is open, by the CPU time that may come later, and by the standard deviation: ticks and
// interrupts come by chance.
func (b *Balance) Due() time.Duration {
	return max(0, b.open-late-time.Duration(math.Sqrt(b.squares)*float64(time.Second)))
}
