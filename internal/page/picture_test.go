package page

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "make docs/page.png")

// TestPicture makes the README's picture of the page, from a profile of the demo. Without -update the picture is of the page of a
// synthetic profile and is only looked at: it must have the colours of the graphs.
func TestPicture(t *testing.T) {
	in := server(t)
	if *update {
		demo := filepath.Join(t.TempDir(), "demo.tach")
		if out, err := exec.Command("go", "run", "../../cmd/gotach", "demo", "-o", demo).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		in = fileInput(t, demo)
		in.Name = "demo.tach"
	}
	p := open(t, pageOf(t, Options{}, in), "#m=light", 1280, 800)
	p.wait(`true`)
	shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	const name = "../../docs/page.png"
	if *update {
		if err := os.WriteFile(name, shot, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{shot, stored} {
		m, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		counts := map[[3]uint32]int{}
		for y := range m.Bounds().Dy() {
			for x := range m.Bounds().Dx() {
				r, g, b, _ := m.At(x, y).RGBA()
				counts[[3]uint32{r >> 8, g >> 8, b >> 8}]++
			}
		}
		for _, c := range [][3]uint32{{0xe6, 0x9f, 0}, {0, 0x72, 0xb2}} { // running and lock
			if counts[c] < 1000 {
				t.Errorf("%d pixels of %v have the colour %x", counts[c], m.Bounds(), c)
			}
		}
	}
}
