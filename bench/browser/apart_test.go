//go:build peers

package browser

import (
	"math"
	"testing"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/profile"
)

// TestPeerPageApart: what is set apart is left out as in gotach report, a line says how much it is, and a switch shows it. The strip
// agrees, also where it has shorter steps than the records.
func TestPeerPageApart(t *testing.T) {
	in := pagetest.File(t, "../../internal/analyze/findings/testdata/causes/leak-senders.tach")
	apart := pagetest.Report(in, report.Options{}, profile.ByFunction).Apart
	p := open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
	p.wait(`document.getElementById('apart-note').textContent === 'set apart: leaked goroutines 32m19s; the box “set apart” shows it'`)
	p.compare("functions", in, report.Options{})
	p.sets("w", "weight", `"cpu"`)
	p.compare("functions", in, report.Options{Weight: "cpu"})
	p.sets("w", "weight", `"latency"`)
	p.compare("functions", in, report.Options{Weight: "latency"})
	p.sets("w", "weight", `"wall"`)
	p.press("#apart", `gotach.settings().apart`)
	p.wait(`!document.getElementById('apart-note').textContent.includes('shows it')`)
	p.compare("functions", in, report.Options{Apart: true})
	p.sets("D", "apart", "false")
	if len(apart) != 1 {
		t.Fatalf("the report sets apart %v", apart)
	}
	for _, events := range []int{0, 500} {
		p := open(t, pagetest.Write(t, page.Options{Events: events}, in), "", 1280, 800)
		if fine := eval[bool](p, `gotach.fine < gotach.width`); fine != (events > 0) {
			t.Errorf("%d events: the strip has shorter steps: %v", events, fine)
		}
		if got, want := eval[float64](p, `gotach.classes(0, gotach.end)['set apart']`), float64(apart[0].Wall.Microseconds()); math.Abs(got-want) > want/1000 {
			t.Errorf("the strip sets %v µs apart, the report %v", got, want)
		}
	}
}
