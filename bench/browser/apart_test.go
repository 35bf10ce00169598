//go:build peers

package browser

import (
	"math"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/tachyon"
)

// asksItself makes a profile of a server with a load generator that asks it, and with a handler that serves a profile. Another goroutine computes and
// waits.
func asksItself(t testing.TB) page.Input {
	r, at := pagetest.New(t), pagetest.Frame
	for i, name := range []string{"tcp :8080", "tcp :8080 from 127.0.0.1", "tcp 127.0.0.1:8080"} {
		r.Objects = append(r.Objects, tachyon.Object{Number: int32(i) + 1, Kind: tachyon.ObjectConnection, Name: name})
	}
	stacks := [][]tachyon.Frame{
		{pagetest.Wait("select"), at("net/http.(*persistConn).roundTrip", 1), at("net/http.(*Client).Do", 1), at("main.get", 1), at("main.load", 2)},
		{{Func: "[IO wait]", Line: 3}, at("net/http.(*persistConn).readLoop", 1)},
		{pagetest.Wait("sleep"), at("time.Sleep", 1), at("net/http/pprof.Profile", 1), at("net/http.(*conn).serve", 1)},
		{pagetest.Wait("chan receive"), at("main.answer", 9), at("main.work", 7)},
	}
	for i, stack := range stacks {
		for ms := range uint64(2000) {
			if i == len(stacks)-1 && ms%2 == 0 {
				r.Add(uint64(i)+1, ms*1000, pagetest.Running|tachyon.Moved, stack[1:]...)
				continue
			}
			r.Add(uint64(i)+1, ms*1000, tachyon.Moved, stack...)
		}
		r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: uint64(i) + 1, FirstWeight: 1000, First: pagetest.Begin, Last: pagetest.Begin + 1_999_000})
	}
	return r.Input(2 * time.Second)
}

// TestPeerPageApart: what is set apart is left out as in gotach report, a line says how much it is, and a switch shows it. The strip
// agrees, also where it has shorter steps than the records.
func TestPeerPageApart(t *testing.T) {
	for _, c := range []struct {
		in   page.Input
		want string
		of   int // kinds
	}{
		{pagetest.File(t, "../../internal/analyze/findings/testdata/causes/leak-senders.tach"), "leaked goroutines 32m19s", 1},
		{asksItself(t), "clients of the program's own server 2.00s, profiling endpoints 2.00s", 2},
	} {
		t.Run(c.want, func(t *testing.T) { looksApart(t, c.in, c.want, c.of) })
	}
}

func looksApart(t *testing.T, in page.Input, want string, kinds int) {
	apart := pagetest.Report(in, report.Options{}, profile.ByFunction).Apart
	p := open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
	p.wait(`document.getElementById('apart-note').textContent === ` + quote("set apart: "+want+"; the box “set apart” shows it"))
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
	if len(apart) != kinds {
		t.Fatalf("the report sets apart %v", apart)
	}
	sum := 0.0
	for _, x := range apart {
		sum += float64(x.Wall.Microseconds())
	}
	for _, events := range []int{0, 500} {
		p := open(t, pagetest.Write(t, page.Options{Events: events}, in), "", 1280, 800)
		if fine := eval[bool](p, `gotach.fine < gotach.width`); fine != (events > 0) {
			t.Errorf("%d events: the strip has shorter steps: %v", events, fine)
		}
		if got := eval[float64](p, `gotach.classes(0, gotach.end)['set apart']`); math.Abs(got-sum) > sum/1000 {
			t.Errorf("the strip sets %v µs apart, the report %v", got, sum)
		}
	}
}
