package cmp

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

type node struct {
	Name string
	next *node
	any  any
}

func TestDiff(t *testing.T) {
	ring := func(name string) *node {
		n := &node{Name: "a"}
		n.next = &node{Name: name, next: n}
		return n
	}
	now := time.Now()
	for _, c := range []struct {
		want, got any
		options   []Option
		diff      string // a difference that is told; "" if there is none
	}{
		{1, 1, nil, ""},
		{1, 2, nil, "- : 1\n+ : 2\n"},
		{1, int64(1), nil, "- : 1\n+ : 1\n"},
		{nil, nil, nil, ""},
		{nil, 1, nil, "- : nothing\n+ : 1\n"},
		{"a", "b", nil, "- : \"a\"\n+ : \"b\"\n"},
		{[]int{1, 2}, []int{1, 3}, nil, "- [1]: 2\n+ [1]: 3\n"},
		{[]int{1, 2}, []int{1}, nil, "- [1]: 2\n+ [1]: nothing\n"},
		{[]int{}, []int(nil), nil, "- : []\n+ : []\n"},
		{[]int{}, []int(nil), []Option{EquateEmpty()}, ""},
		{[]int{0}, []int(nil), []Option{EquateEmpty()}, "- : [0]\n+ : []\n"},
		{map[string]int{}, map[string]int(nil), nil, "- : map[]"},
		{map[string]int{}, map[string]int(nil), []Option{EquateEmpty()}, ""},
		{map[string]int{"x": 1}, map[string]int{"y": 1}, nil, "- [x]: 1\n+ [x]: nothing\n- [y]: nothing\n+ [y]: 1\n"},
		{[2]string{"a", "b"}, [2]string{"a", ""}, nil, "- [1]: \"b\"\n+ [1]: \"\"\n"},
		{ring("b"), ring("b"), nil, ""},
		{ring("b"), ring("c"), nil, "- .next.Name: \"b\"\n+ .next.Name: \"c\"\n"},
		{ring("b"), ring("c"), []Option{Exported()}, ""},
		{ring("b"), ring("c"), []Option{Ignore(node{}, "Name")}, ""},
		{ring("b"), (*node)(nil), nil, "+ : <nil>"},
		{node{any: 1}, node{any: "1"}, nil, "- .any: 1\n+ .any: \"1\"\n"},
		{node{any: []int{1}}, node{any: []int{1}}, nil, ""},
		{now, now.UTC(), nil, ""},
		{now, now.Add(1), nil, "-"},
		{1.0, 1.0 + 1e-10, nil, "-"},
		{1.0, 1.0 + 1e-10, []Option{Near(1e-9)}, ""},
		{1e6, 1e6 + 1e-4, []Option{Near(1e-9)}, ""},
		{1e6, 1e6 + 1e-2, []Option{Near(1e-9)}, "-"},
		{math.NaN(), math.NaN(), []Option{Near(1)}, "- : NaN"},
		{func() {}, func() {}, nil, "-"},
	} {
		switch d := Diff(c.want, c.got, c.options...); {
		case c.diff == "" && d != "":
			t.Errorf("%+v and %+v are told to differ:\n%s", c.want, c.got, d)
		case c.diff != "" && (!strings.HasPrefix(d, c.diff) && !strings.Contains(d, "\n"+c.diff)):
			t.Errorf("%+v and %+v:\n%s\nwant\n%s", c.want, c.got, d, c.diff)
		}
	}
}

// TestMany: of many differences only some are told.
func TestMany(t *testing.T) {
	if d := Diff(make([]int, 1000), make([]bool, 1000)); strings.Count(d, "\n") != 2 {
		t.Errorf("other types: %s", d)
	}
	want := make([]int, 1000)
	for i := range want {
		want[i] = i + 1
	}
	if d := Diff(want, make([]int, 1000)); strings.Count(d, "\n") != 2*most+1 || !strings.HasSuffix(d, fmt.Sprintf("[%d]: 0\n…\n", most-1)) {
		t.Error(d)
	}
}
