//go:build peers

package browser

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/findings"
	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/testenv"
)

// whyOf returns the findings of an input.
func whyOf(in page.Input) []findings.Finding {
	o := report.Options{Series: true}
	so := o.Stream()
	so.Unselected = true
	survey := testenv.Must(report.NewSurvey(testenv.Must(in.Open(so)), o, nil))
	return testenv.Must(findings.OfSurvey(survey, "x.tach", math.MaxInt64))
}

// TestPeerPageWhy: the page begins with the findings; a click selects what one is about and says what that is. A server sends the same.
func TestPeerPageWhy(t *testing.T) {
	in := pagetest.File(t, "../../internal/analyze/testdata/sessions/leaky-server.tach")
	in.Files = "x.tach"
	want := whyOf(in)
	if len(want) < 3 || want[0].Kind != findings.Leak || want[2].Kind != findings.Lock {
		t.Fatalf("the findings are %+v", want)
	}
	url := pagetest.Serve(t, page.ServerOptions{Title: "x", Open: pagetest.Selecting(in)})
	for _, p := range []*tab{open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800), openURL(t, url, "", 1280, 800)} {
		p.wait(fmt.Sprintf(`document.querySelectorAll('#why li').length === %d`, min(5, len(want))))
		for i, x := range want[:3] {
			if got := p.text(fmt.Sprintf("#why li:nth-child(%d)", i+1)); !strings.HasPrefix(got, x.Kind) || !strings.Contains(got, x.Text) || !strings.Contains(got, x.Sure) {
				t.Errorf("finding %d is %q, want %+v", i, got, x)
			}
		}
		if y := p.rect("#strip").Y; p.rect("#why").Y > y {
			t.Error("the findings are below the time")
		}
		p.press("[data-key=why0]", `gotach.settings().finding === 0 && gotach.settings().tab === 'leaks'`)
		p.wait(`document.getElementById('flame-bar').textContent.includes(` + quote("Callers above, callees below: "+want[0].Function) + `)`)
		if got := p.text("#why [role=status]"); !strings.HasPrefix(got, "Selected: goroutines of sync.(*WaitGroup).Go  waitgroup.go:238, callers and callees of "+want[0].Function+", what is set apart too, the table “Leaks”.") {
			t.Errorf("what is selected is said so: %s", got)
		}
		p.sets(escape, "finding", "-1")
		p.setting("group", "-1")
		p.setting("selected", "-1")
		// The keys do the same.
		p.key("a", `document.activeElement.dataset.key === 'why0'`)
		p.keys("\t")
		p.sets(enter, "finding", "1")
	}

	// A server finds what is wrong in the selected range.
	p := openURL(t, url, "", 1280, 800)
	a := p.selects(0.5, 1)
	p.wait(`document.getElementById('why-note').textContent.startsWith('In the selected range')`)
	late := whyOf(pagetest.During(in, page.Span{From: start(t, in) + a[0], To: start(t, in) + a[1]}))
	p.wait(`document.querySelector('#why li').textContent.includes(` + quote(late[0].Text) + `)`)
	p.press("[data-key=why0]", `gotach.settings().finding === 0`)
	p.key(escape, `gotach.settings().finding === -1 && gotach.settings().range`) // the range is still selected

	healthy := pagetest.New(t)
	for ms := uint64(1); ms <= 2000; ms++ {
		healthy.Add(1, 1000*ms, 0, pagetest.Wait("IO wait"), pagetest.Frame("main.main", 9))
	}
	p = open(t, pagetest.Write(t, page.Options{}, healthy.Input(2e9)), "", 1280, 800)
	p.wait(`document.getElementById('why-note').textContent.includes('Nothing stands out.')`)
}

// start returns when an input begins, in µs.
func start(t *testing.T, in page.Input) int64 {
	t.Helper()
	return int64(testenv.Must(page.Build([]page.Input{in}, page.Options{})).Head.Sides[0].StartUS)
}

// TestPeerPageWhyKinds: a click on a finding of any kind shows the table that has more about it, and weighs CPU time where that is meant.
func TestPeerPageWhyKinds(t *testing.T) {
	for _, x := range []struct{ file, kind, shows string }{
		{"cpu-cores", findings.CPU, `s.tab === 'functions' && s.weight === 'cpu' && s.selected >= 0`},
		{"gc-pressure", findings.GC, `s.tab === 'functions' && s.weight === 'cpu'`},
		{"lock-fsync", findings.Lock, `s.tab === 'locks' && document.querySelector('#table .detail').textContent.includes('Held by')`},
		{"semaphore", findings.Pool, `s.tab === 'locks' && document.querySelector('#table .detail').textContent.includes('main.(*thumbnails).make')`},
		{"pool-sql", findings.Pool, `s.tab === 'blocked' && document.querySelector('#table tbody tr').textContent.includes('main.(*shop).checkOut')`},
		{"n-plus-one", findings.Chatty, `s.tab === 'requests'`},
		{"idle-server", findings.Idle, `s.tab === 'blocked' && s.idle`},
		{"few-ticks", findings.Profile, `document.getElementById('facts').open`},
	} {
		in := pagetest.File(t, "../../internal/analyze/findings/testdata/causes/"+x.file+".tach")
		in.Files = "x.tach"
		p := open(t, pagetest.Write(t, page.Options{}, in), "", 1280, 800)
		same(t, p.text("#why b"), x.kind)
		p.press("[data-key=why0]", `((s) => s.finding === 0 && `+x.shows+`)(gotach.settings())`)
		p.key(escape, `((s) => s.finding === -1 && s.weight === 'wall' && !s.idle && s.selected === -1)(gotach.settings())`)
	}
}
