package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"
	"github.com/gotach/profiler/internal/source"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// TestUserText: names and labels cannot end the script element or begin an element.
func TestUserText(t *testing.T) {
	text := testenv.Must(os.ReadFile(pagetest.Write(t, page.Options{}, pagetest.Server(t))))
	if bytes.Contains(text, []byte("<img")) || bytes.Count(text, []byte("</script>")) != bytes.Count(text, []byte("<script")) {
		t.Error("a name of the profile is markup in the page")
	}
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

// TestTicksTooLate: ticks that were refused for the longest pause did not come too late.
func TestTicksTooLate(t *testing.T) {
	r := pagetest.New(t)
	r.Counts = tachyon.Counts{TicksAsked: 100, TicksReached: 50, TicksForBudget: 20, TicksIdle: 10, TicksRefused: 15}
	r.Add(1, 1000, pagetest.Running, pagetest.Frame("main.work", 10))
	d := testenv.Must(page.Build([]page.Input{r.Input(time.Second)}, page.Options{}))
	testenv.Has(t, "facts", fmt.Sprint(d.Head.Sides[0].Facts), "{ticks too late 5")
}

// TestMaxSize: the page becomes as small as asked for, says how, and has the same sums.
func TestMaxSize(t *testing.T) {
	in := pagetest.Busy(t)
	large := testenv.Must(page.Build([]page.Input{in}, page.Options{}))
	size := testenv.Must(large.Size())
	small := testenv.Must(page.Build([]page.Input{in}, page.Options{MaxSize: size - 1000}))
	testenv.Within(t, "bytes", testenv.Must(small.Size()), 0, size-1000)
	if len(large.Head.LeftOut) != 0 || len(small.Head.LeftOut) == 0 {
		t.Errorf("left out: %q and %q", large.Head.LeftOut, small.Head.LeftOut)
	}
	// Much smaller: the steps of time are longer too.
	bytes := int64(0)
	for _, p := range large.Pieces {
		bytes += int64(len(p.Bytes)) * 4 / 3
	}
	least := testenv.Must(page.Build([]page.Input{in}, page.Options{MaxSize: size - bytes/2}))
	if least.Head.Width <= large.Head.Width || len(least.Head.LeftOut) < 2 {
		t.Errorf("steps of %d and %d µs; left out: %q", large.Head.Width, least.Head.Width, least.Head.LeftOut)
	}
	testenv.Fails(t, "a page of 1,000 bytes", testenv.Err(page.Build([]page.Input{in}, page.Options{MaxSize: 1000})), page.ErrTooLarge.Error())
	var out strings.Builder
	testenv.OK(t, small.WriteHTML(&out))
	head, _, _ := strings.Cut(out.String()[strings.Index(out.String(), `id="head">`)+len(`id="head">`):], "</script>")
	var h page.Head
	testenv.OK(t, json.Unmarshal([]byte(head), &h))
	testenv.Same(t, "duration and total", [2]time.Duration{h.Sides[0].Duration, h.Sides[0].Total}, [2]time.Duration{2 * time.Second, large.Head.Sides[0].Total})
}
