package flamegraph

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
)

var update = flag.Bool("update", false, "write testdata")

// A box is a frame of a picture.
type box struct {
	Title string `xml:"title"`
	Text  string `xml:"text"`
	Rect  struct {
		X     float64 `xml:"x,attr"`
		Y     float64 `xml:"y,attr"`
		Width float64 `xml:"width,attr"`
	} `xml:"rect"`
}

// name is the first line of what a pointer over the frame shows.
func (b *box) name() string {
	name, _, _ := strings.Cut(b.Title, "\n")
	return name
}

var (
	elements = regexp.MustCompile(`<(\w+)`)
	active   = regexp.MustCompile(`\s(on\w+|(\w+:)?href)="`)
)

// parse reads a picture. It fails the test if that is not well-formed XML or has anything that a static picture has not.
func parse(t *testing.T, svg []byte) (boxes []box, texts string) {
	t.Helper()
	var picture struct {
		Boxes []box    `xml:"g"`
		Texts []string `xml:"text"`
	}
	testenv.OK(t, xml.Unmarshal(svg, &picture))
	for _, e := range elements.FindAllSubmatch(svg, -1) {
		testenv.FailIf(t, !slices.Contains([]string{"svg", "g", "style", "title", "text", "rect"}, string(e[1])), "element %s", e[1])
	}
	testenv.Same(t, "active attributes", string(active.Find(svg)), "")
	for _, b := range picture.Boxes {
		picture.Texts = append(picture.Texts, b.Text)
	}
	return picture.Boxes, strings.Join(picture.Texts, "\n")
}

func example() *profile.Profile {
	b := profile.NewBuilder()
	p := b.Profile
	p.Program, p.Duration, p.Goroutines, p.Samples = "/bin/app", 10*time.Second, 3, 100
	p.Start = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	frame := func(name string) uint32 { return b.Frame(profile.Frame{File: "/src/<x>.go", Func: name, Line: 7}, 0) }
	wait := func(name string) uint32 { return b.Frame(profile.Frame{Func: name}, 0) }
	main, work, generic := frame("main.main"), frame("example.com/shop/cart.(*Cart).Add"), frame(`main.Map[go.shape.string,<&"]`)
	for _, r := range []profile.Record{
		{State: profile.Running, Stack: []uint32{generic, work, main}, Wall: 4 * time.Second, CPU: 4 * time.Second},
		{State: profile.NoCore, Stack: []uint32{generic, work, main}, Wall: time.Second},
		{State: "sync.Mutex.Lock", Stack: []uint32{wait("[sync.Mutex.Lock]"), work, main}, Wall: 2 * time.Second},
		{State: "chan receive", Stack: []uint32{wait("[chan receive]"), main}, Wall: 3 * time.Second},
		{State: profile.Running, Stack: []uint32{frame("main.tiny"), main}, Wall: time.Millisecond, CPU: time.Millisecond},
	} {
		r.Goroutine, r.Count = 1, 1
		b.Add(r)
	}
	return b.Finish()
}

// The width of each frame is its time, texts are escaped, and what is narrow is left out.
func TestWrite(t *testing.T) {
	var out bytes.Buffer
	left := testenv.Must(Write(&out, example(), Options{}))
	testenv.Same(t, "left", left, "left out: 1 frame that is too narrow to see (0.0% of the time)")
	boxes, _ := parse(t, out.Bytes())
	scale := (width - 2*margin) / 10.001
	got := map[string]float64{}
	for _, b := range boxes {
		got[b.name()] = math.Round(b.Rect.Width/scale*100) / 100
	}
	want := map[string]float64{
		"all": 10, "main.main": 10, "example.com/shop/cart.(*Cart).Add": 7, `main.Map[go.shape.string,<&"]`: 5,
		"[no core]": 1, "[sync.Mutex.Lock]": 2, "[chan receive]": 3,
	}
	testenv.NoDiff(t, "seconds by frame", cmp.Diff(want, got))
	testenv.Golden(t, "testdata/example.svg", out.String(), *update)
	testenv.Same(t, "Sniff", Sniff(out.Bytes()), true)
}

func TestCPU(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(Write(&out, example(), Options{CPU: true, Selection: "label a=<b>"}))
	boxes, shown := parse(t, out.Bytes())
	testenv.Has(t, "texts", shown, "app: 4s of CPU time, 3 goroutines", "only label a=<b>")
	for _, b := range boxes {
		testenv.FailIf(t, strings.HasPrefix(b.Title, "["), "%s has CPU time", b.Title)
	}
}

// Names with any characters make a well-formed picture, and so do profiles without anything.
func TestText(t *testing.T) {
	b := profile.NewBuilder()
	b.Profile.Program = "<\x00\xff&\"'"
	for i, name := range []string{"]]>", "<!--", "\x1b[0m", "a\nb", "\xff\xfe", "日本語の関数", "\ufffe", "", "&amp;", "</title><script>alert(1)</script>"} {
		b.Add(profile.Record{Stack: []uint32{b.Frame(profile.Frame{Func: name, File: name}, 0)}, Wall: time.Duration(i+1) * time.Second, State: name})
	}
	b.Add(profile.Record{Wall: time.Second})
	for _, p := range []*profile.Profile{b.Finish(), {}} {
		var out bytes.Buffer
		testenv.Must(Write(&out, p, Options{Selection: "state \x02<"}))
		parse(t, out.Bytes())
	}
}

// A picture is small, however large the profile is. Frames of a picture lie on frames that are drawn.
func TestLarge(t *testing.T) {
	b := profile.NewBuilder()
	for i := range 10_000 {
		stack := []uint32{}
		for depth := range 8 {
			n := i >> (2 * (7 - depth))
			stack = append([]uint32{b.Frame(profile.Frame{Func: fmt.Sprintf("main.f%d_%d", depth, n)}, 0)}, stack...)
		}
		b.Add(profile.Record{Stack: stack, Wall: time.Millisecond, State: profile.Running})
	}
	for i := range 1500 { // too many that are wide enough
		stack := []uint32{}
		for depth := range 8 {
			stack = append([]uint32{b.Frame(profile.Frame{Func: fmt.Sprintf("main.wide%d_%d", depth, i)}, 0)}, stack...)
		}
		b.Add(profile.Record{Stack: stack, Wall: 40*time.Millisecond + time.Duration(i)*time.Microsecond, State: profile.Running})
	}
	deep := []uint32{}
	for range 1000 {
		deep = append(deep, b.Frame(profile.Frame{Func: "main.deep"}, 0))
	}
	b.Add(profile.Record{Stack: deep, Wall: time.Second, State: profile.Running})
	var out bytes.Buffer
	left := testenv.Must(Write(&out, b.Finish(), Options{}))
	testenv.Within(t, "bytes", out.Len(), 0, 4<<20)
	testenv.Has(t, "left", left, "too narrow", "851 frames above row 150")
	boxes, _ := parse(t, out.Bytes())
	testenv.Within(t, "frames", len(boxes), mostNodes*9/10, mostNodes+1)
	at := map[string]box{}
	for _, b := range boxes {
		at[b.name()] = b
	}
	for name, b := range at {
		var depth, n int
		if _, err := fmt.Sscanf(name, "main.f%d_%d", &depth, &n); err != nil || depth == 0 {
			continue
		}
		below, ok := at[fmt.Sprintf("main.f%d_%d", depth-1, n>>2)]
		r := below.Rect
		testenv.FailIf(t, !ok || b.Rect.Y != r.Y-rowHeight || b.Rect.X < r.X-.02 || b.Rect.X+b.Rect.Width > r.X+r.Width+.02, "%s at %v is not on its caller at %v", name, b, below)
	}
}
