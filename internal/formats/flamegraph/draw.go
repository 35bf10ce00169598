package flamegraph

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// generator tells our pictures from other ones.
const generator = "gotach flame graph"

// Sizes in pixels.
const (
	margin    = 10
	rowHeight = 18
	charWidth = 7.25 // of the widest usual monospaced font at 12 px
	topHeight = 92   // of title and legend
)

// fills are three shades of each class. They stay apart for people who see no red or green, and
// black text on them is readable.
var fills = [stream.Classes + 1][3]string{
	stream.ClassOnCPU:    {"#f5a860", "#f7b87d", "#f39a45"},
	stream.ClassNoCore:   {"#ea8468", "#ee987f", "#e87758"},
	stream.ClassRunnable: {"#f0de6c", "#f4e58a", "#ebd650"},
	stream.ClassSyscall:  {"#c8ad86", "#d2bb9a", "#bfa177"},
	stream.ClassIO:       {"#8fc7ef", "#a5d2f3", "#7abceb"},
	stream.ClassLock:     {"#dc9dc5", "#e3b0d1", "#d58bb9"},
	stream.ClassChannel:  {"#7dcab1", "#95d4bf", "#67c0a3"},
	stream.ClassSleep:    {"#b4bccb", "#c1c8d5", "#a8b1c2"},
	stream.ClassOther:    {"#c9c9c9", "#d4d4d4", "#bfbfbf"},
	mixed:                {"#e6e2d8", "#ece9e1", "#dfdacd"},
}

// A drawing makes the text of a picture.
type drawing struct {
	*graph
	b []byte
}

func (d *drawing) add(text ...string) {
	for _, t := range text {
		d.b = append(d.b, t...)
	}
}

func (d *drawing) draw() {
	height := topHeight + d.rows*rowHeight + margin
	title, sub := d.titles()
	if d.left != "" {
		height += 20
	}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" width="`, strconv.Itoa(width), `" height="`, strconv.Itoa(height),
		`" viewBox="0 0 `, strconv.Itoa(width), " ", strconv.Itoa(height), `" role="img" aria-label="`, escape(title+". "+sub), `">`, "\n")
	d.add("<!-- ", generator, " -->\n<style>\n",
		"text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#111}\n",
		".p{fill:#fff}.h{fill:#1f2328;font:600 17px system-ui,'DejaVu Sans',sans-serif}.s{fill:#59636e;font:13px system-ui,'DejaVu Sans',sans-serif}\n",
		"rect{stroke:#fff;stroke-width:.6}.n{stroke:none}g:hover rect{stroke:#000;stroke-width:1.2}\n")
	for c := range fills {
		for shade, fill := range fills[c] {
			d.add(".", fillClass(stream.Class(c), shade), "{fill:", fill, "}")
		}
	}
	d.add("\n@media(prefers-color-scheme:dark){.p{fill:#0d1117}.h{fill:#f0f6fc}.s{fill:#a3acb6}rect{stroke:#0d1117}.n{stroke:none}g:hover rect{stroke:#fff}}\n</style>\n")
	d.add(`<rect class="p" width="100%" height="100%"/>`, "\n")
	d.text("h", margin, 26, title)
	d.text("s", margin, 47, sub)
	d.legend()
	bottom := topHeight + d.rows*rowHeight
	d.frames(bottom)
	if d.left != "" {
		d.text("s", margin, bottom+18, d.left)
	}
	d.add("</svg>\n")
}

func (d *drawing) text(class string, x float64, y int, text string) {
	d.add(`<text class="`, class, `" x="`, number(x), `" y="`, strconv.Itoa(y), `">`, escape(text), "</text>\n")
}

// legend shows the classes with their shares.
func (d *drawing) legend() {
	root := &d.nodes[0]
	x := float64(margin)
	for c, time := range root.classes {
		if time == 0 {
			continue
		}
		text := stream.Class(c).String() + " " + share(time, root.total)
		d.add(`<rect class="`, fillClass(stream.Class(c), 0), `" x="`, number(x), `" y="62" width="13" height="13"/>`)
		d.text("s", x+19, 73, text)
		x += 19 + float64(len(text))*7.2 + 16
	}
}

// frames draws all frames. bottom is the lower edge of the root's row.
func (d *drawing) frames(bottom int) {
	type at struct {
		node uint32
		x    float64
	}
	scale := (width - 2*margin) / max(1, float64(d.nodes[0].total))
	list := []at{{0, margin}}
	for len(list) > 0 {
		a := list[len(list)-1]
		list = list[:len(list)-1]
		node := &d.nodes[a.node]
		wide := float64(node.total) * scale
		if a.node == 0 {
			wide = width - 2*margin
		}
		top := bottom - (node.depth+1)*rowHeight
		d.frame(node, a.x, top, wide)
		x := a.x
		for _, c := range node.children {
			if d.drawn[c] {
				list = append(list, at{c, x})
			}
			x += float64(d.nodes[c].total) * scale
		}
	}
}

// frame draws the box of a node.
func (d *drawing) frame(n *node, x float64, top int, wide float64) {
	name, shown := n.function.name, shortName(n.function.name)
	if n.depth == 0 {
		name, shown = "all", "all"
	}
	class := fillClass(n.class(), shade(n.function.name))
	if wide < 3 {
		class += " n" // its border would hide it
	}
	d.add("<g><title>", escape(d.tooltip(n, name)), `</title><rect class="`, class, `" x="`, number(x), `" y="`, strconv.Itoa(top),
		`" width="`, number(max(0, wide)), `" height="`, strconv.Itoa(rowHeight-1), `"/>`)
	if shown = fit(shown, int((wide-6)/charWidth)); shown != "" {
		d.add(`<text x="`, number(x+3), `" y="`, strconv.Itoa(top+13), `">`, escape(shown), "</text>")
	}
	d.add("</g>\n")
}

// titles returns the two lines at the top.
func (d *drawing) titles() (title, sub string) {
	p, root := d.p, &d.nodes[0]
	title = "Profile"
	if p.Program != "" {
		title = p.Program[strings.LastIndexAny(p.Program, `/\`)+1:]
	}
	kind := "wall time"
	if d.o.CPU {
		kind = "CPU time"
	}
	switch {
	case p.Unitless:
		title += ": " + d.amount(root.total)
	default:
		title += ": " + d.amount(root.total) + " of " + kind
	}
	switch {
	case p.Goroutines == 1:
		title += ", 1 goroutine"
	case p.Goroutines > 1:
		title += ", " + thousands(int64(p.Goroutines)) + " goroutines"
	}
	var list []string
	if !p.Start.IsZero() {
		list = append(list, p.Start.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if p.Duration > 0 {
		list = append(list, "for "+duration(p.Duration))
	}
	if !d.o.CPU && !p.Unitless {
		list = append(list, "CPU time "+duration(root.cpu))
	}
	if d.o.Selection != "" {
		list = append(list, "only "+d.o.Selection)
	}
	return title, strings.Join(list, " · ")
}

// tooltip says what is known about a node.
func (d *drawing) tooltip(n *node, name string) string {
	root := &d.nodes[0]
	text := fmt.Sprintf("%s\n%s, %s", name, d.amount(n.total), share(n.total, root.total))
	if n.depth > 0 {
		text += fmt.Sprintf("; itself %s, %s", d.amount(n.self), share(n.self, root.total))
	}
	if !d.o.CPU && !d.p.Unitless {
		text += "; CPU " + duration(n.cpu)
	}
	if n.function.file != "" {
		text += "\n" + n.function.file
	}
	for c, time := range n.classes {
		if time > 0 && time < n.total {
			text += "\n" + stream.Class(c).String() + " " + share(time, n.total)
		}
	}
	return text
}

func (d *drawing) amount(t time.Duration) string {
	if d.p.Unitless {
		return thousands(int64(t / time.Microsecond))
	}
	return duration(t)
}

// leftText says what is not drawn.
func leftText(narrow, deep int, hidden, total time.Duration) string {
	var list []string
	switch {
	case narrow == 1:
		list = append(list, "1 frame that is too narrow to see")
	case narrow > 1:
		list = append(list, thousands(int64(narrow))+" frames that are too narrow to see")
	}
	if deep > 0 {
		list = append(list, fmt.Sprintf("%s frames above row %d", thousands(int64(deep)), mostRows))
	}
	if len(list) == 0 {
		return ""
	}
	return "left out: " + strings.Join(list, ", ") + " (" + share(hidden, total) + " of the time)"
}

// share returns a part of a whole in percent.
func share(part, whole time.Duration) string {
	percent := 100 * float64(part) / max(1, float64(whole))
	if percent != 0 && percent < 9.95 {
		return strconv.FormatFloat(percent, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(percent, 'f', 0, 64) + "%"
}

// duration returns a time with three digits or so.
func duration(t time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if t >= unit {
			step := unit / 100
			if unit >= time.Minute {
				step = time.Second
			}
			return t.Round(step).String()
		}
	}
	return t.String()
}

func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func fillClass(c stream.Class, shade int) string {
	return string(rune('a'+c)) + strconv.Itoa(shade)
}

// shade returns the shade of a function, which is that of its package.
func shade(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(profile.Package(name)))
	return int(h.Sum32() % 3)
}

// shortName returns a function's name with the last element of its import path only.
func shortName(name string) string {
	head := name
	if i := strings.IndexAny(head, "[("); i > 0 {
		head = head[:i]
	}
	return name[strings.LastIndexByte(head, '/')+1:]
}

// fit shortens a text to a number of characters. It returns "" if that is too few to be of use.
func fit(text string, most int) string {
	switch {
	case utf8.RuneCountInString(text) <= most:
		return text
	case most < 4:
		return ""
	}
	runes := []rune(text)
	return string(runes[:most-1]) + "…"
}

// number writes a length with two decimals.
func number(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// escape returns a text for XML. Characters that XML cannot have are shown as the replacement
// character.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&quot;")
		case r < ' ' && r != '\n' && r != '\t', r == 0xfffe, r == 0xffff:
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
