package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// A getter gets what is at an address.
type getter func(address string) (body string, status int)

func fetch(address string) (string, int) {
	r := testenv.Must(http.Get(address))
	defer r.Body.Close()
	return string(testenv.Must(io.ReadAll(r.Body))), r.StatusCode
}

// waitFor waits until the server has newer data of a range than a generation.
func (get getter) waitFor(t *testing.T, url, query string, than int64) (s page.Status) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.Head == nil; time.Sleep(50 * time.Millisecond) {
		s = page.Status{}
		body, _ := get(fmt.Sprintf("%sdata/status?%s&generation=%d", url, query, than))
		err := json.Unmarshal([]byte(body), &s)
		testenv.StopIf(t, err != nil || s.Error != "" || time.Now().After(end), "%s: %v", body, err)
	}
	return s
}

// served calls a test with a server of files that are viewed, without a network and with the clock of testing/synctest.
func served(t *testing.T, v *viewed, test func(t *testing.T, get getter)) {
	v.warn = func(err error) { t.Error(err) }
	synctest.Test(t, func(t *testing.T) {
		s := page.NewServer(t.Context(), page.ServerOptions{Open: v.open, Version: v.version})
		defer s.Close()
		test(t, func(address string) (string, int) {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
			return w.Body.String(), w.Code
		})
	})
}

// TestViewLarge: of files that take long to read, some are shown first. A range needs only the files that have its time.
func TestViewLarge(t *testing.T) {
	dir := t.TempDir()
	const files, samples = 20, 900
	for n := range files {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("x.%02d.tach", n)), n, samples)
	}
	v := &viewed{sides: [][]string{{dir}}, large: 10 << 10}
	served(t, v, func(t *testing.T, get getter) {
		first := get.waitFor(t, "/", "", 0).Head
		some := first.Sides[0].Samples / samples
		want := fmt.Sprintf("%d of %d files", some, files)
		testenv.FailIf(t, first.Sketch != want || some < 2 || some > files/2, "it begins with %q and %d files, want %q", first.Sketch, some, want)
		// The first and the last file are there. In between nothing is recorded.
		testenv.Within(t, "µs at first", first.Sides[0].To, (files-1)*1_000_000+samples*1000, files*1_000_000)
		whole := get.waitFor(t, "/", "", 1)
		got := whole.Head.Sides[0].Samples
		testenv.FailIf(t, got != files*samples || whole.Head.Sketch != "" || !whole.Head.NoLatency, "then it has %d samples, %q", got, whole.Head.Sketch)
		start := int64(whole.Head.Sides[0].StartUS)
		span := page.Span{From: start + 7_100_000, To: start + 8_200_000}
		list, _ := v.timed([]string{dir}, span)
		testenv.FailIf(t, len(list) != 4 || filepath.Base(list[0].path) != "x.06.tach", "the range is in %v", list)
		part := get.waitFor(t, "/", fmt.Sprintf("from=%d&to=%d", span.From, span.To), 0)
		// 1.1 s less the 100 ms after the samples of each file
		testenv.Within(t, "samples of the range", part.Head.Sides[0].Samples, 995, 1005)
	})
	// Also if only some of the files are shown first, one that cannot be read is an error at the start.
	must(v.check())
	wrong := filepath.Join(dir, "x.02.tach")
	must(os.WriteFile(wrong, []byte("nothing"), 0o600))
	testenv.Fails(t, "with a wrong file", v.check(), wrong)
}

// TestViewGrows: while a program writes its file, what it wrote since then is shown too, and all when it is finished.
func TestViewGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.tach")
	w := testenv.Must(writer.Create(path, writer.Options{Start: fixtureStart, Interval: 1000}))
	session := tachyon.Session{Program: "app", Source: "native", Rate: 1000, Start: time.UnixMicro(fixtureStart).UTC()}
	must(w.Provisional(tachyon.KindSession, session))
	f := &fixture{w: w}
	served(t, &viewed{sides: [][]string{{path}}}, func(t *testing.T, get getter) {
		generation := int64(0)
		for part := uint64(1); part <= 3; part++ {
			for ms := 100*part - 99; ms <= 100*part; ms++ {
				f.add(1, ms, onCPU, own("main.go", "work", 3+int(ms%2)))
			}
			if part == 3 {
				must(w.AddMetadata(tachyon.KindSession, session))
				must(w.Close())
			}
			var s page.Status
			for s.Head == nil || s.Head.Sides[0].Samples < int64(100*part) || s.Growing != (part < 3) { // the server reads when it wants to
				s = get.waitFor(t, "/", "", generation)
				generation = s.Generation
			}
			testenv.Same(t, "samples", s.Head.Sides[0].Samples, int64(100*part))
		}
	})
}
