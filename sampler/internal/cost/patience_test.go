//go:build linux && (amd64 || arm64)

package cost

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience checks when Start gives up.
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		fallback bool
		allow    time.Duration // after 100 ms
		over     time.Duration // of CPU time
	}{
		"usual":                         {true, 0, StartLimit},
		"no other source can take over": {false, 0, onlyLimit},
		"is allowed more":               {true, StartLimit, StartLimit + 100*time.Millisecond},
		"is allowed less":               {true, 100 * time.Millisecond, StartLimit},
	} {
		synctest.Test(t, func(t *testing.T) {
			cpu := time.Minute
			p := NewPatience(func() time.Duration { return cpu }, c.fallback)
			cpu += 100 * time.Millisecond
			p.Allow(c.allow)
			if cpu = time.Minute + c.over; p.Over("") != nil {
				t.Errorf("%s: Start gives up before %v", name, c.over)
			}
			if cpu++; p.Over("") == nil {
				t.Errorf("%s: Start goes on after %v", name, c.over)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience(func() time.Duration { return 0 }, true)
		if time.Sleep(onlyLimit / 2); p.Over("") != nil || !p.Lasts() {
			t.Error("Start does not wait for a core")
		}
		if time.Sleep(onlyLimit / 2); p.Over("") == nil || p.Lasts() {
			t.Error("Start waits for a core for ever")
		}
	})
}
