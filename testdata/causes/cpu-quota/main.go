// A server that renders labels, in a container that gives it half a core. It has enough cores and may not use them.
package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type printer struct{ width, height int }

func (p *printer) draw(text string) *image.Gray {
	m := image.NewGray(image.Rect(0, 0, p.width, p.height))
	for i := range m.Pix {
		m.Pix[i] = text[i%len(text)] ^ byte(i>>4)
	}
	m.SetGray(0, 0, color.Gray{Y: 255})
	return m
}

func (p *printer) label(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	if err := png.Encode(&b, p.draw(r.PathValue("parcel"))); err != nil { // planted
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Write(b.Bytes())
}

func main() {
	defer profiler.Start().Stop()
	p := &printer{width: 400, height: 300}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /label/{parcel}", p.label)
	run.Serve(mux, "/label/parcel*", 4, 5*time.Millisecond)
}
