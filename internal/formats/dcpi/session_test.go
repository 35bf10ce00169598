package dcpi

import (
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/tachyon"
)

func TestFromSessionSaysWhatIsMissing(t *testing.T) {
	full := func() *tachyon.Metadata {
		return &tachyon.Metadata{
			Session: &tachyon.Session{Source: "portable"},
			PCs:     &tachyon.LeafPCs{TextStart: 1, TextSize: 9, PCs: []tachyon.LeafPC{{Addr: 2, Wall: 1}}},
		}
	}
	for want, change := range map[string]func(*tachyon.Metadata) time.Duration{
		"not recorded by gotach":          func(m *tachyon.Metadata) time.Duration { *m = tachyon.Metadata{}; return 1 },
		"source (portable)":               func(m *tachyon.Metadata) time.Duration { m.PCs = nil; return 1 },
		"time between two samples":        func(m *tachyon.Metadata) time.Duration { return 0 },
		"event wall_ns: the sum of count": func(m *tachyon.Metadata) time.Duration { overflow(m.PCs); return 1 },
	} {
		m := full()
		interval := change(m)
		if _, err := FromSession(m, interval); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func overflow(pcs *tachyon.LeafPCs) {
	pcs.PCs[0].Wall = 1<<32 - 1
	pcs.PCs = append(pcs.PCs, tachyon.LeafPC{Addr: 3, Wall: 1})
}

func TestCPUInfo(t *testing.T) {
	const text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2599.998\nprocessor\t: 1\ncpu MHz\t\t: 1200.000\n"
	if got := cpuinfoMHz(text); got != 2600 {
		t.Errorf("got %d MHz", got)
	}
	if got := cpuinfoMHz("processor\t: 0\nBogoMIPS\t: 100.00\n"); got != 0 {
		t.Errorf("got %d MHz where none is named", got)
	}
}
