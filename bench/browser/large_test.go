//go:build peers

package browser

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
)

// crowd makes a profile of a server that starts 5,000 goroutines a second. Each lives for some 20 ms, has two or three samples,
// and one of 800 stacks. 300 others live as long as the server.
func crowd(t testing.TB, seconds int) page.Input {
	r, rng := pagetest.New(t), rand.New(rand.NewPCG(1, 2))
	var stacks [800][]tachyon.Frame
	for i := range stacks {
		for depth := range 12 {
			stacks[i] = append(stacks[i], pagetest.Frame(fmt.Sprintf("example.com/app/part%d.(*Server).call%d", i>>min(9, depth), depth), int32(10+i%7)))
		}
	}
	waits := []tachyon.Frame{pagetest.Wait("chan receive"), pagetest.Wait("select"), pagetest.Wait("sync.Mutex.Lock"), pagetest.Wait("sleep"), pagetest.Wait("IO wait")}
	sample := func(id, at uint64) {
		n := rng.IntN(len(stacks))
		if rng.IntN(3) == 0 {
			r.Add(id, at, pagetest.Running, stacks[n]...)
		} else { // only a few stacks wait for locks and channels
			r.Add(id, at, 0, append([]tachyon.Frame{waits[min(len(waits)-1, n%100)]}, stacks[n]...)...)
		}
	}
	id := uint64(1000)
	for ms := uint64(0); ms < uint64(seconds)*1000; ms++ {
		for range 5 {
			sample(id, ms*1000)
			sample(id, ms*1000+rng.Uint64N(10_000))
			if rng.IntN(2) == 0 {
				sample(id, ms*1000+10_000+rng.Uint64N(20_000))
			}
			r.Goroutines = append(r.Goroutines, tachyon.Goroutine{ID: id, CreatedBy: "example.com/app.(*Server).Serve", CreatedAt: "/src/app/app.go:" + strconv.Itoa(int(id%9))})
			id++
		}
		for range 3 {
			sample(1+rng.Uint64N(300), ms*1000)
		}
	}
	return r.Input(time.Duration(seconds) * time.Second)
}

// TestPeerPageLarge makes the page of many goroutines, and measures it in the browser. With GOTACH_NIGHT=1 it is of a session of ten minutes
// with three million goroutines.
func TestPeerPageLarge(t *testing.T) {
	seconds, frames := testenv.Times(1, 600), testenv.Times(5, 40)
	in := crowd(t, seconds)
	begin := time.Now()
	file := pagetest.Write(t, page.Options{}, in)
	built := time.Since(begin)
	fi := testenv.Must(os.Stat(file))
	if fi.Size() > page.DefaultMaxSize {
		t.Errorf("the page has %d bytes, want at most %d", fi.Size(), page.DefaultMaxSize)
	}
	p := open(t, file, "", 1280, 800)
	t.Logf("%d s of 5,000 goroutines a second: built in %v, %d bytes; %s", seconds, built.Round(time.Millisecond), fi.Size(), eval[string](p, `document.getElementById('left-out').textContent`))
	t.Logf("first paint after %.0f ms, all drawn after %.0f ms", eval[float64](p, `performance.getEntriesByName('first-contentful-paint')[0].startTime`), eval[float64](p, `gotach.ready`))
	for _, what := range []struct{ name, step string }{
		{"zoom and pan the strip", `strip.dispatchEvent(new WheelEvent('wheel', i < 10 ? {deltaY: -100, ctrlKey: true} : {deltaX: i % 2 ? 30 : 40}))`},
		{"move a range", `strip.dispatchEvent(new KeyboardEvent('keydown', {key: i % 40 < 20 ? 'ArrowRight' : 'ArrowLeft'}))`},
	} {
		before := eval[string](p, `location.hash`)
		eval[bool](p, `(() => { const strip = document.getElementById('strip'); window.frames2 = []; let i = 0, last = 0; const step = (now) => { if (last) frames2.push(now - last); last = now; if (i++ < `+strconv.Itoa(frames)+`) { `+what.step+`; requestAnimationFrame(step); } else window.done = `+quote(what.name)+`; }; requestAnimationFrame(step); return true; })()`)
		p.wait(`window.done === ` + quote(what.name))
		t.Logf("%s: the longest of %d frames took %.0f ms, the median %.0f ms", what.name, frames, eval[float64](p, `Math.max(...frames2)`), eval[float64](p, `frames2.sort((a, b) => a - b)[`+strconv.Itoa(frames/2)+`]`))
		hash := eval[string](p, `location.hash`)
		if hash == before {
			t.Errorf("%s: the address is still %q", what.name, hash)
		}
		want := open(t, file, hash, 1280, 800)
		for _, id := range []string{"strip", "heat", "flame", "lives"} {
			pixels := `document.getElementById(` + quote(id) + `).toDataURL()`
			if eval[string](p, pixels) != eval[string](want, pixels) {
				t.Errorf("%s: %s does not look as in a page that begins with %s", what.name, id, hash)
			}
		}
	}
}
