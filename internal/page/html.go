package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"io/fs"
	"strings"
	"sync"
)

//go:embed web
var web embed.FS

// The parts of the page that are the same for all profiles, joined when a page is written: most
// commands write none.
var (
	script = sync.OnceValue(func() string { return joined("web", ".js", "'use strict';\n(() => {\n", "})();\n") })
	style  = sync.OnceValue(func() string { return joined("web", ".css", "", "") })
	body   = sync.OnceValue(func() string { return joined("web", ".html", "", "") })
)

// joined returns the embedded files with an extension in the order of their names.
func joined(dir, ext, before, after string) string {
	var b strings.Builder
	b.WriteString(before)
	list, err := fs.ReadDir(web, dir)
	for _, e := range list {
		if err != nil || !strings.HasSuffix(e.Name(), ext) {
			continue
		}
		var text []byte
		if text, err = web.ReadFile(dir + "/" + e.Name()); err == nil {
			b.Write(text)
		}
	}
	if err != nil {
		panic(err) // the files are part of the program
	}
	b.WriteString(after)
	return b.String()
}

// policy returns the page's Content-Security-Policy: only this script and this style sheet, and
// nothing from anywhere else, but with live the pieces from the server that sent the page.
func policy(live bool) string {
	p := "default-src 'none'; script-src " + hash(script()) + "; style-src " + hash(style()) + "; base-uri 'none'; form-action 'none'"
	if live {
		p += "; connect-src 'self'"
	}
	return p
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// WriteHTML writes the page. The pieces are in it, unless Head.Live is set.
func (d *Data) WriteHTML(w io.Writer) error {
	head, err := json.Marshal(d.Head) // it writes < as \u003c
	if err != nil {
		return err
	}
	out := &counted{w: w}
	out.text(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="` + html.EscapeString(policy(d.Head.Live)) + `">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>` + html.EscapeString(d.Head.Title) + ` – gotach</title>
<style>` + style() + `</style>
</head>
<body>
` + body() + `<script type="application/json" id="head">` + string(head) + "</script>\n")
	if !d.Head.Live {
		for _, p := range d.Pieces {
			out.text(`<script type="application/octet-stream" id="piece-` + p.Name + `">`)
			if out.err == nil {
				z := base64.NewEncoder(base64.StdEncoding, out)
				if _, out.err = z.Write(p.Bytes); out.err == nil {
					out.err = z.Close()
				}
			}
			out.text("</script>\n")
		}
	}
	out.text("<script>" + script() + "</script>\n</body>\n</html>\n")
	return out.err
}

// size returns the length of the page in bytes.
func (d *Data) size() (int64, error) {
	out := &counted{w: io.Discard}
	err := d.WriteHTML(out)
	return out.n, err
}

// A counted counts bytes, and keeps the first error.
type counted struct {
	w   io.Writer
	n   int64
	err error
}

func (w *counted) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.w.Write(p)
	w.n += int64(n)
	w.err = err
	return n, err
}

func (w *counted) text(s string) { _, _ = w.Write([]byte(s)) }
