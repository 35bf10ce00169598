package nocore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

func TestBounded(t *testing.T) {
	var b Balances
	for pc := range uint64(2 * most) {
		b.Of(4 + pc)
	}
	testenv.FailIf(t, b.Of(4) == b.Of(5) || b.Of(2*most) != b.Of(3*most) || len(b.of) > most+1, "%d balances", len(b.of))
}

// Of goroutines that run for less than a tick, the ticks that find them say how long they had no core, within what chance does.
func TestBalance(t *testing.T) {
	const ticks, tick, ran, hit = 20_000, 20 * time.Millisecond, 5 * time.Millisecond, 4 * time.Millisecond // ran: in a tick
	for _, without := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond} {
		var b Balance
		random := rand.New(rand.NewPCG(1, uint64(without)))
		told := time.Duration(0)
		for range ticks {
			if random.Float64() < float64(ran)/float64(tick) {
				b.Found(tick)
			}
			if random.Float64() < float64(ran-without)/float64(hit)/2 { // a hit stands for two periods as often as for none
				b.Used(2 * hit)
			}
			due := b.Due()
			told += due
			b.Told(due)
		}
		off := told - without*ticks
		testenv.FailIf(t, off.Abs() > ran*ticks*6/100, "%v of %v without a core in each tick: %v in all, %v off", without, ran, told, off)
	}
}
