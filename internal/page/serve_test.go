package page_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/analyze/report"
	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

func get(t *testing.T, url string) []byte {
	t.Helper()
	r := testenv.Must(http.Get(url))
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	testenv.StopIf(t, err != nil || r.StatusCode != http.StatusOK, "%s: %s %s (%v)", url, r.Status, b, err)
	return b
}

// ready waits until the server has newer data of a part than a generation.
func ready(t *testing.T, url, query string, than int64) (s page.Status) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s = page.Status{}
		testenv.OK(t, json.Unmarshal(get(t, fmt.Sprintf("%sdata/status?%s&generation=%d", url, query, than)), &s))
		testenv.StopIf(t, s.Error != "", "%v", s.Error)
		if s.Head != nil {
			return s
		}
	}
	t.Fatalf("the server has nothing after a minute: %+v", s)
	return s
}

// unpack reads the JSON at the begin of a piece, and returns the rest.
func unpack(t *testing.T, piece []byte, into any) (rest []byte) {
	all := testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(bytes.NewReader(piece)))))
	n := 4 + binary.LittleEndian.Uint32(all)
	testenv.OK(t, json.Unmarshal(all[4:n], into))
	return all[n:]
}

// columns returns the columns of a piece.
func columns(t *testing.T, piece []byte) map[string][]int64 {
	var about struct{ Columns [][]any }
	c, at := map[string][]int64{}, unpack(t, piece, &about)
	for _, x := range about.Columns {
		list := []int64{}
		for range int(x[1].(float64)) {
			v, n := binary.Varint(at)
			list, at = append(list, v), at[n:]
		}
		c[x[0].(string)] = list
	}
	return c
}

// sums returns the time of a page's records in µs without that which is at no moment, that on CPU, and the number of samples.
func sums(t *testing.T, piece []byte, h *page.Head) (wall, cpu, samples int64) {
	c, e := columns(t, piece), 0
	for r, events := range c["recEvents"] {
		time, count, last, step := c["recRest"][r], int64(0), int64(0), int64(0)
		for range events {
			step += c["evStep"][e]
			time += count*int64(h.Width)*(step-last) + c["evPart"][e]
			count += c["evDiff"][e]
			last = step
			e++
		}
		wall += time
		cpu += time * c["stateCPU"][c["recState"][r]]
		samples += c["recSamples"][r]
	}
	return wall, cpu, samples
}

// TestServerSums: the pieces of the whole and of a range add up to what gotach report says of them, with steps of time that are
// much longer than the range.
func TestServerSums(t *testing.T) {
	in := pagetest.Server(t)
	url := pagetest.Serve(t, page.ServerOptions{Options: page.Options{}, Title: "x", Open: pagetest.Selecting(in)})
	for _, span := range []page.Span{{}, {pagetest.Begin + 250_123, pagetest.Begin + 301_457}, {pagetest.Begin + 1_000_000, pagetest.Begin + 3_000_000}} {
		query := ""
		if span != (page.Span{}) {
			query = fmt.Sprintf("from=%d&to=%d", span.From, span.To)
		}
		s := ready(t, url, query, 0)
		wall, cpu, samples := sums(t, get(t, fmt.Sprintf("%sdata/core?%s&generation=%d", url, query, s.Generation)), s.Head)
		want := pagetest.Report(pagetest.During(in, span), report.Options{Idle: true}, profile.ByFunction)
		testenv.Same(t, span, fmt.Sprint(wall, cpu, samples, samples > 0), fmt.Sprint(want.Total.Microseconds(), want.TotalCPU.Microseconds(), want.Samples, true))
		head := s.Head.Sides[0]
		testenv.Same(t, span, [2]time.Duration{head.Total, head.CPU}, [2]time.Duration{want.Total, want.TotalCPU})
		testenv.FailIf(t, span != (page.Span{}) && int64(s.Head.Sides[0].StartUS) != span.From, "%v: it begins at %d", span, s.Head.Sides[0].StartUS)
	}
}

// TestServerSecurity: who does not know the token, uses another name of the computer, or is another site gets nothing.
func TestServerSecurity(t *testing.T) {
	url := pagetest.Serve(t, page.ServerOptions{Title: "secret", Open: pagetest.Selecting(pagetest.Server(t))})
	ready(t, url, "", 0)
	base, token := url[:strings.LastIndex(url[:len(url)-1], "/")+1], strings.Split(url, "/")[3]
	testenv.Same(t, "the length of the token", len(token), 32)
	other := strings.Repeat("0", 32)
	for _, c := range []struct {
		name, method, url string
		header            [2]string
		want              int
	}{
		{"the page", "GET", url, [2]string{}, 200},
		{"localhost", "GET", url, [2]string{"Host", "localhost:" + strings.Split(strings.Split(url, ":")[2], "/")[0]}, 200},
		{"its own script", "GET", url + "data/status", [2]string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"its own origin", "GET", url + "data/status", [2]string{"Origin", strings.TrimSuffix(base, "/")}, 200},
		{"no token", "GET", base, [2]string{}, 404},
		{"no token, data", "GET", base + "data/status", [2]string{}, 404},
		{"another token", "GET", base + other + "/data/status", [2]string{}, 404},
		{"a part of the token", "GET", base + token[:31] + "/", [2]string{}, 404},
		{"DNS rebinding", "GET", url, [2]string{"Host", "evil.example"}, 403},
		{"another port", "GET", url, [2]string{"Host", "127.0.0.1:1"}, 403},
		{"another origin", "GET", url + "data/status", [2]string{"Origin", "http://evil.example"}, 403},
		{"an opaque origin", "GET", url + "data/status", [2]string{"Origin", "null"}, 403},
		{"another site", "GET", url + "data/status", [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port's site", "GET", url + "data/status", [2]string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a change", "POST", url, [2]string{}, 405},
		{"another file", "GET", url + "etc/passwd", [2]string{}, 404},
		{"no such piece", "GET", url + "data/x?generation=1", [2]string{}, 410},
		{"an old generation", "GET", url + "data/core?generation=99", [2]string{}, 410},
		{"a bad range", "GET", url + "data/status?from=9&to=1", [2]string{}, 400},
	} {
		r := testenv.Must(http.NewRequest(c.method, c.url, nil))
		if c.header[0] == "Host" {
			r.Host = c.header[1]
		} else if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		a := testenv.Must(http.DefaultClient.Do(r))
		body, _ := io.ReadAll(a.Body)
		a.Body.Close()
		testenv.Same(t, c.name, a.StatusCode, c.want)
		testenv.FailIf(t, c.want >= 400 && bytes.Contains(body, []byte("secret")), "%s: the answer has the title", c.name)
		if h := a.Header; c.want == 200 && (h.Get("Access-Control-Allow-Origin") != "" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Referrer-Policy") != "no-referrer") {
			t.Errorf("%s: header %v", c.name, h)
		}
	}
}

// TestServerViews: only some parts are kept, and the whole always.
func TestServerViews(t *testing.T) {
	url := pagetest.Serve(t, page.ServerOptions{Open: pagetest.Selecting(pagetest.Server(t))})
	whole := ready(t, url, "", 0)
	for i := range int64(page.MostPages + 2) {
		ready(t, url, fmt.Sprintf("from=%d&to=%d", pagetest.Begin+i*1000, pagetest.Begin+i*1000+100_000), 0)
	}
	get(t, fmt.Sprintf("%sdata/core?generation=%d", url, whole.Generation))
	r := testenv.Must(http.Get(fmt.Sprintf("%sdata/core?from=%d&to=%d&generation=%d", url, pagetest.Begin, pagetest.Begin+100_000, whole.Generation+1)))
	r.Body.Close()
	testenv.Same(t, "the first of too many parts", r.StatusCode, http.StatusGone)
}

// TestServerPartFirst: a part of the time that a page asks for while the whole is being read is there before the whole.
func TestServerPartFirst(t *testing.T) {
	in := pagetest.Selecting(pagetest.Busy(t))
	asked, waiting := make(chan struct{}), make(chan struct{})
	var once sync.Once
	url := pagetest.Serve(t, page.ServerOptions{Open: func(ctx context.Context, r page.Request) (*page.Opened, error) {
		o, err := in(ctx, r)
		if r.Span != (page.Span{}) || err != nil {
			return o, err
		}
		open := o.Inputs[0].Open
		o.Inputs[0].Open = func(so stream.Options) (*stream.Source, error) {
			progress := so.Progress
			so.Progress = func(done, total uint64) {
				once.Do(func() { close(waiting); <-asked })
				progress(done, total)
			}
			return open(so)
		}
		return o, nil
	}})
	<-waiting
	part := fmt.Sprintf("from=%d&to=%d", pagetest.Begin, pagetest.Begin+100_000)
	get(t, url+"data/status?"+part)
	for !strings.Contains(string(get(t, url+"data/status?"+part)), "waiting") {
		time.Sleep(time.Millisecond) // until it waits for its turn
	}
	close(asked)
	first := ready(t, url, part, 0)
	testenv.FailIf(t, ready(t, url, "", 0).Generation < first.Generation, "the whole was read before the part")
}

// TestServerFindings: the tables of a range are those of the analyses of that range.
func TestServerFindings(t *testing.T) {
	in := pagetest.Contended(t)
	url := pagetest.Serve(t, page.ServerOptions{Open: pagetest.Selecting(in)})
	span := page.Span{pagetest.Begin + 200_000, pagetest.Begin + 500_000}
	for _, part := range []page.Span{{}, span} {
		query := ""
		if part != (page.Span{}) {
			query = fmt.Sprintf("&from=%d&to=%d", part.From, part.To)
		}
		for _, what := range page.FindingNames {
			want := testenv.Must(page.Findings(what, pagetest.During(in, part)))
			s := ready(t, url, "what="+what+query, 0)
			var got struct{ Sides []json.RawMessage }
			unpack(t, get(t, fmt.Sprintf("%sdata/tables?what=%s%s&generation=%d", url, what, query, s.Generation)), &got)
			testenv.FailIf(t, len(got.Sides) != 1 || string(got.Sides[0]) != string(want) || len(want) < 100, "%s of %v: %s, want %s", what, part, got.Sides, want)
		}
	}
	if r, err := http.Get(url + "data/status?what=else"); err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown table: %v, %v", r, err)
	} else {
		r.Body.Close()
	}
}

// TestUserText: names and labels cannot end the script element or begin an element.
func TestUserText(t *testing.T) {
	text := testenv.Must(os.ReadFile(pagetest.Write(t, page.Options{}, pagetest.Server(t))))
	testenv.FailIf(t, bytes.Contains(text, []byte("<img")) || bytes.Count(text, []byte("</script>")) != bytes.Count(text, []byte("<script")), "a name of the profile is markup in the page")
	testenv.Has(t, "the page, with the name of the profile and a policy", string(text), `\u003c/script\u003e\u003cimg`, `content="default-src &#39;none&#39;; script-src &#39;sha256-`)
}

// TestSource: the page has lines of source only where a profile's function is, and those around it.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testenv.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("go.mod", "module app\n")
	ours := write("ours.go", "package main\n\nfunc ours() {\n\tours()\n}\n")
	strange := write("strange.go", "package main\n\nfunc strange() {\n\tstrange()\n}\n")
	t.Chdir(dir)
	r := pagetest.New(t)
	for i, file := range []string{ours, strange} {
		r.Add(uint64(i), 1000, pagetest.Running, tachyon.Frame{Func: "main.ours", File: file, Line: 4})
	}
	d := testenv.Must(page.Build([]page.Input{r.Input(time.Second)}, page.Options{Source: source.Usual().Read}))
	i := slices.IndexFunc(d.Pieces, func(p page.Piece) bool { return p.Name == "source" })
	var got struct{ Files map[string]map[string]string }
	unpack(t, d.Pieces[i].Bytes, &got)
	testenv.Same(t, "lines", fmt.Sprint(len(got.Files), got.Files[ours]["3"]), "1func ours() {")
}

// TestAbout: ticks that were refused for the longest pause did not come too late, times are of goroutines, and the number of a
// group's goroutines is also that of those without a row.
func TestAbout(t *testing.T) {
	r := pagetest.New(t)
	r.Counts = tachyon.Counts{TicksAsked: 100, TicksReached: 50, TicksForBudget: 20, TicksIdle: 10, TicksRefused: 15}
	for g := range uint64(5002) {
		r.Add(g+1, 1000, pagetest.Running, pagetest.Frame("main.work", 10))
	}
	r.AddRuntime(tachyon.FirstPseudo, 1000, pagetest.Running, tachyon.Frame{Func: tachyon.FuncScheduler}) // is of no goroutine
	d := testenv.Must(page.Build([]page.Input{r.Input(time.Second)}, page.Options{}))
	i, side := slices.IndexFunc(d.Pieces, func(p page.Piece) bool { return p.Name == "goroutines" }), d.Head.Sides[0]
	testenv.Has(t, "facts, times, rows and goroutines", fmt.Sprint(side.Facts, side.Total, side.CPU, d.Head.LeftOut, columns(t, d.Pieces[i].Bytes)["members"]),
		"{ticks too late 5", "] 5.003234567s 5.002s", "2 of 5002 goroutines have no row", " [5002]")
}

// TestMaxSize: the page becomes as small as asked for, says how, and has the same sums.
func TestMaxSize(t *testing.T) {
	in := pagetest.Busy(t)
	large := testenv.Must(page.Build([]page.Input{in}, page.Options{}))
	size := testenv.Must(large.Size())
	small := testenv.Must(page.Build([]page.Input{in}, page.Options{MaxSize: size - 1000}))
	testenv.Within(t, "bytes", testenv.Must(small.Size()), 0, size-1000)
	testenv.FailIf(t, len(large.Head.LeftOut) != 0 || len(small.Head.LeftOut) == 0, "left out: %q and %q", large.Head.LeftOut, small.Head.LeftOut)
	// Much smaller: the steps of time are longer too.
	bytes := int64(0)
	for _, p := range large.Pieces {
		bytes += int64(len(p.Bytes)) * 4 / 3
	}
	least := testenv.Must(page.Build([]page.Input{in}, page.Options{MaxSize: size - bytes/2}))
	testenv.FailIf(t, least.Head.Width <= large.Head.Width || len(least.Head.LeftOut) < 2, "steps of %d and %d µs; left out: %q", large.Head.Width, least.Head.Width, least.Head.LeftOut)
	testenv.Fails(t, "a page of 1,000 bytes", testenv.Err(page.Build([]page.Input{in}, page.Options{MaxSize: 1000})), page.ErrTooLarge.Error())
	var out strings.Builder
	testenv.OK(t, small.WriteHTML(&out))
	head, _, _ := strings.Cut(out.String()[strings.Index(out.String(), `id="head">`)+len(`id="head">`):], "</script>")
	var h page.Head
	testenv.OK(t, json.Unmarshal([]byte(head), &h))
	testenv.Same(t, "duration and total", [2]time.Duration{h.Sides[0].Duration, h.Sides[0].Total}, [2]time.Duration{2 * time.Second, large.Head.Sides[0].Total})
}
