//go:build peers

package browser

import (
	"bytes"
	"flag"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/page"
	"github.com/gotach/profiler/internal/page/pagetest"

	"github.com/chromedp/chromedp"

	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "make docs/page.png")

// TestPeerPicture makes docs/reading.md's picture of the page, from a profile of the demo. Without -update the picture is of the page of a
// synthetic profile and is only looked at: it must have the colours of the graphs.
func TestPeerPicture(t *testing.T) {
	in := pagetest.Server(t)
	if *update {
		demo := filepath.Join(t.TempDir(), "demo.tach")
		if out, err := exec.Command("go", "run", "../../cmd/gotach", "demo", "-o", demo).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		in = pagetest.File(t, demo)
		in.Name = "demo.tach"
	}
	p := open(t, pagetest.Write(t, page.Options{}, in), "#m=light", 1280, 800)
	p.wait(`true`)
	shot := testenv.Must(chromedp.Run(p.ctx, chromedp.CaptureScreenshot()))
	const name = "../../docs/page.png"
	if *update {
		testenv.OK(t, os.WriteFile(name, shot, 0o644))
	}
	for _, b := range [][]byte{shot, testenv.Must(os.ReadFile(name))} {
		m := testenv.Must(png.Decode(bytes.NewReader(b)))
		counts := map[color.Color]int{}
		for i := range m.Bounds().Dx() * m.Bounds().Dy() {
			counts[color.RGBAModel.Convert(m.At(i%m.Bounds().Dx(), i/m.Bounds().Dx()))]++
		}
		// running and lock
		if a, b := counts[color.RGBA{0xe6, 0x9f, 0, 0xff}], counts[color.RGBA{0, 0x72, 0xb2, 0xff}]; a < 1000 || b < 1000 {
			t.Errorf("%d and %d pixels of %v have the colours of the graphs", a, b, m.Bounds())
		}
	}
}
