package collapsed

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"pgregory.net/rapid"
)

const us = time.Microsecond

func sample() *profile.Profile {
	return &profile.Profile{
		Goroutines: 2,
		Frames: []profile.Frame{
			{Func: "[chan receive]"}, {Func: "main.work", File: "w.go", Line: 1}, {Func: "main.work", File: "w.go", Line: 2},
			{Func: "odd;name\nhere"}, {File: "only.go"}, {},
		},
		Records: []profile.Record{
			{Goroutine: 1, Stack: []uint32{0, 1}, Wall: 5 * us},
			{Goroutine: 2, Stack: []uint32{0, 2}, Wall: 3*us + 499},
			{Goroutine: 1, Stack: []uint32{2, 3, 4, 5}, Wall: 2*us + 500, CPU: us},
			{Goroutine: 1, Stack: []uint32{2}, Wall: us / 2},
			{Goroutine: 1, Stack: []uint32{3}, Wall: us/2 - 1},
			{Goroutine: 2, Wall: us},
		},
	}
}

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "?;only.go;odd:name here;main.work 3\n[no stack] 1\nmain.work 1\nmain.work;[chan receive] 8\n"},
		{Options{Goroutines: true}, "goroutine 1;?;only.go;odd:name here;main.work 3\ngoroutine 1;main.work 1\n" +
			"goroutine 1;main.work;[chan receive] 5\ngoroutine 2 1\ngoroutine 2;main.work;[chan receive] 3\n"},
		{Options{CPU: true}, "?;only.go;odd:name here;main.work 1\n"},
	} {
		var b bytes.Buffer
		if err := Write(&b, sample(), c.o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("%+v: %s", c.o, diff)
		}
	}
}

func TestRead(t *testing.T) {
	p, err := Read(strings.NewReader("main;work with space 3\r\n\nmain;work with space 4\ngoroutine 7;main;[sleep] 2.5\nmain;work with space;main 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &profile.Profile{
		Unitless: true, Samples: 11, Goroutines: 1,
		Frames: []profile.Frame{{Func: "work with space"}, {Func: "main"}, {Func: "[sleep]"}},
		Records: []profile.Record{
			{Stack: []uint32{0, 1}, Count: 7, Wall: 7 * us},
			{Goroutine: 7, State: "sleep", Stack: []uint32{2, 1}, Count: 3, Wall: 3 * us},
			{Stack: []uint32{1, 0, 1}, Count: 1, Wall: us},
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "no stacks"},
		{"a;b 1\nprose\n", "line 2: not a stack, a space and a weight"},
		{"a;b x\n", `line 1: "x" is not a weight`},
		{"a;b -1\n", "line 1: the weight -1 is negative"},
		{"a;b NaN\n", "not a weight"},
		{"a;b 1e300\n", "not a weight"},
		{" 1\n", "line 1: "},
		{"a 9223372036854775807\n", "line 1: the sum of the weights is too large"},
		{"a 9000000000000000\na 9000000000000000\n", "line 2: the sum of the weights is too large"},
		{"a;b 1\n" + strings.Repeat("x", maxLine+1), "line 2: longer than 16 MB"},
	} {
		_, err := Read(strings.NewReader(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30q: error %v, want %q", c.in, err, c.want)
		}
	}
}

func TestSniff(t *testing.T) {
	for _, c := range []struct {
		head string
		want bool
	}{
		{"a;b 1\nc;d 2\n", true},
		{"a;b 1\nc;d cut of", true},
		{"a;b 1", true},
		{"goroutine 1;main.main 5\r\n", true},
		{"main 1\n", false},
		{"hello world\n", false},
		{"a;b 1\nprose\n", false},
		{"", false},
		{"a;b\x00 1\n", false},
	} {
		if got := Sniff([]byte(c.head)); got != c.want {
			t.Errorf("%q: %v", c.head, got)
		}
	}
}

// What is written reads back as the same stacks and weights.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &profile.Profile{Goroutines: 1}
		for i := range 5 {
			p.Frames = append(p.Frames, profile.Frame{Func: rapid.StringMatching(`[a-z][a-z.()\[\]*]{0,8}`).Draw(t, "func") + fmt.Sprint(i)})
		}
		want := map[string]time.Duration{}
		for range rapid.IntRange(1, 10).Draw(t, "records") {
			r := profile.Record{Goroutine: rapid.Uint64Range(0, 2).Draw(t, "goroutine"), Wall: us * time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "wall"))}
			r.Stack = rapid.SliceOfN(rapid.Uint32Range(0, 4), 1, 6).Draw(t, "stack")
			p.Records = append(p.Records, r)
			want[key(p, r)] += r.Wall
		}
		var b bytes.Buffer
		if err := Write(&b, p, Options{Goroutines: true}); err != nil {
			t.Fatal(err)
		}
		q, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]time.Duration{}
		for _, r := range q.Records {
			got[key(q, r)] += r.Wall
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func key(p *profile.Profile, r profile.Record) string {
	names := []string{fmt.Sprint(r.Goroutine)}
	for _, id := range slices.Backward(r.Stack) {
		names = append(names, p.Frames[id].Func)
	}
	return strings.Join(names, ";")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("main;work 3\ngoroutine 7;main;[sleep] 2.5\n"))
	f.Add([]byte(";;; 0\n"))
	f.Add([]byte("goroutine 1 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p *profile.Profile
		var err error
		if grown := testenv.Allocated(func() { p, err = Read(bytes.NewReader(b)) }); grown > uint64(1<<20+500*len(b)) {
			t.Errorf("%d bytes allocated %d", len(b), grown)
		}
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, p, Options{Goroutines: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := profile.New(p, profile.ReportOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

func ExampleWrite() {
	p := &profile.Profile{
		Frames:  []profile.Frame{{Func: "[sleep]"}, {Func: "time.Sleep"}, {Func: "main.main"}},
		Records: []profile.Record{{Stack: []uint32{0, 1, 2}, Wall: 40 * time.Millisecond}},
	}
	_ = Write(os.Stdout, p, Options{})
	// Output: main.main;time.Sleep;[sleep] 40000
}

func ExampleRead() {
	p, err := Read(strings.NewReader("main.main;main.work 60\nmain.main;[sleep] 40\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range p.Records {
		fmt.Println(p.Frames[r.Stack[0]].Func, r.Count)
	}
	// Output:
	// main.work 60
	// [sleep] 40
}
