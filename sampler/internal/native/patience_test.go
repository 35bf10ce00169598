//go:build linux && (amd64 || arm64)

package native

import (
	"testing"
	"time"
)

// TestPatience has Starts that began some time ago.
func TestPatience(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	if newPatience(ago(300*time.Millisecond), true).over("") == nil {
		t.Error("Start goes on after 300 ms although another source could take over")
	}
	if err := newPatience(ago(3*time.Second), false).over(""); err != nil {
		t.Errorf("no other source can take over: %v", err)
	}
	p := newPatience(ago(0), true)
	before := p.until
	const waited = 20 * time.Millisecond
	p.excuse(waited, func() { time.Sleep(3 * waited) })
	if more := p.until.Sub(before); more < 2*waited {
		t.Errorf("waiting for a core for %v gives %v", 2*waited, more)
	}
	for name, more := range map[string]func(*patience){
		"allow":  func(p *patience) { p.allow(time.Hour) },
		"excuse": func(p *patience) { p.excuse(-time.Hour, func() {}) },
	} {
		p := newPatience(ago(2*time.Second), true)
		if more(p); p.over("") == nil {
			t.Errorf("Start goes on after two seconds with %s", name)
		}
	}
}
