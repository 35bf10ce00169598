//go:build linux && (amd64 || arm64)

package native

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience checks when Start gives up.
func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		fallback bool
		do       func(p *patience)
		over     time.Duration // since the begin
	}{
		"usual":                         {true, func(*patience) {}, startLimit},
		"no other source can take over": {false, func(*patience) {}, onlyLimit},
		"waits for a core":              {true, func(p *patience) { p.excuse(20*ms, func() { time.Sleep(60 * ms) }) }, startLimit + 40*ms},
		"has a core":                    {true, func(p *patience) { p.excuse(20*ms, func() { time.Sleep(10 * ms) }) }, startLimit},
		"is allowed more":               {true, func(p *patience) { time.Sleep(100 * ms); p.allow(startLimit) }, startLimit + 100*ms},
		"is allowed less":               {true, func(p *patience) { p.allow(100 * ms) }, startLimit},
		"is allowed an hour":            {true, func(p *patience) { p.allow(time.Hour) }, busyLimit},
		"waits for an hour":             {true, func(p *patience) { p.excuse(-time.Hour, func() {}) }, busyLimit},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			p := newPatience(begin, c.fallback)
			c.do(p)
			if time.Sleep(c.over - time.Since(begin) - 1); p.over("") != nil {
				t.Errorf("%s: Start gives up before %v", name, c.over)
			}
			if time.Sleep(time.Nanosecond); p.over("") == nil {
				t.Errorf("%s: Start goes on after %v", name, c.over)
			}
		})
	}
}
