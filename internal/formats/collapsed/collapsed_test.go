package collapsed

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/cmp"
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
		testenv.OK(t, Write(&b, sample(), c.o))
		testenv.NoDiff(t, fmt.Sprintf("%+v", c.o), cmp.Diff(c.want, b.String()))
	}
}

func TestRead(t *testing.T) {
	p := testenv.Must(Read(strings.NewReader("main;work with space 3\r\n\nmain;work with space 4\ngoroutine 7;main;[sleep] 2.5\nmain;work with space;main 1\n")))
	want := &profile.Profile{
		Unitless: true, Samples: 11, Goroutines: 1,
		Frames: []profile.Frame{{Func: "work with space"}, {Func: "main"}, {Func: "[sleep]"}},
		Records: []profile.Record{
			{Stack: []uint32{0, 1}, Count: 7, Wall: 7 * us},
			{Goroutine: 7, State: "sleep", Stack: []uint32{2, 1}, Count: 3, Wall: 3 * us},
			{Stack: []uint32{1, 0, 1}, Count: 1, Wall: us},
		},
	}
	testenv.NoDiff(t, "", cmp.Diff(want, p))
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "no stacks"},
		{"a;b 1\nprose\n", "line 2: not collapsed stacks"},
		{"a;b x\n", `line 1: "x" is not a weight`},
		{"a;b -1\n", "line 1: the weight -1 is negative"},
		{"a;b NaN\n", "not a weight"},
		{"a;b 1e300\n", "not a weight"},
		{" 1\n", "line 1: "},
		{"a 9223372036854775807\n", "line 1: the sum of the weights is too large"},
		{"a 9000000000000000\na 9000000000000000\n", "line 2: the sum of the weights is too large"},
		{"a;b 1\n" + strings.Repeat("x", maxLine+1), "line 2: longer than 16 MB"},
	} {
		testenv.Fails(t, c.in, testenv.Err(Read(strings.NewReader(c.in))), c.want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("main;work 3\ngoroutine 7;main;[sleep] 2.5\n"))
	f.Add([]byte(";;; 0\n"))
	f.Add([]byte("goroutine 1 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p *profile.Profile
		var err error
		testenv.Bounded(t, 1<<20+500*len(b), func() { p, err = Read(bytes.NewReader(b)) })
		if err != nil {
			return
		}
		var out bytes.Buffer
		testenv.OK(t, Write(&out, p, Options{Goroutines: true}))
		testenv.Must(profile.New(p, profile.ReportOptions{}))
	})
}
