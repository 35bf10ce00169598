package dcpi

import (
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
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
		testenv.Fails(t, "", testenv.Err(FromSession(m, interval)), want)
	}
}

func overflow(pcs *tachyon.LeafPCs) {
	pcs.PCs[0].Wall = 1<<32 - 1
	pcs.PCs = append(pcs.PCs, tachyon.LeafPC{Addr: 3, Wall: 1})
}

func TestCPUInfo(t *testing.T) {
	for text, want := range map[string]uint64{
		"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2599.998\nprocessor\t: 1\ncpu MHz\t\t: 1200.000\n": 2600,
		"processor\t: 0\nBogoMIPS\t: 100.00\n": 0,
	} {
		if got := cpuinfoMHz(text); uint64(got) != want {
			t.Errorf("%q: %d MHz, want %d", text, got, want)
		}
	}
}
