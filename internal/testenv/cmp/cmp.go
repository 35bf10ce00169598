// Package cmp says where two values differ, for tests. It compares what pointers and interfaces
// hold, and unexported fields.
package cmp

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// An Option changes what is equal.
type Option func(*comparison)

// EquateEmpty makes a nil slice or map equal to an empty one.
func EquateEmpty() Option { return func(c *comparison) { c.empty = true } }

// Near makes numbers equal that differ by at most by, or by that part of the smaller one.
func Near(by float64) Option { return func(c *comparison) { c.near = by } }

// Exported leaves out all unexported fields.
func Exported() Option { return func(c *comparison) { c.exported = true } }

// Ignore leaves out fields of all structs that have the type of v.
func Ignore(v any, fields ...string) Option {
	return func(c *comparison) {
		for _, name := range fields {
			if _, ok := reflect.TypeOf(v).FieldByName(name); !ok {
				panic(fmt.Sprintf("%T has no field %s", v, name))
			}
			c.ignored = append(c.ignored, field{reflect.TypeOf(v), name})
		}
	}
}

// Diff returns the differences, two lines for each: its place and what want has there, and what got
// has. It returns "" for equal values.
func Diff(want, got any, options ...Option) string {
	c := comparison{visited: map[[2]uintptr]bool{}}
	for _, o := range options {
		o(&c)
	}
	c.compare("", reflect.ValueOf(want), reflect.ValueOf(got))
	return c.out.String()
}

// most is the number of differences that Diff writes.
const most = 20

type field struct {
	in   reflect.Type
	name string
}

type comparison struct {
	empty, exported bool
	near            float64
	ignored         []field

	out     strings.Builder
	found   int
	visited map[[2]uintptr]bool // pairs of pointers, which may lead to themselves
}

// differ notes a difference. A value that is not there is the zero reflect.Value.
func (c *comparison) differ(path string, want, got reflect.Value) {
	if c.found++; c.found == most+1 {
		c.out.WriteString("…\n")
	}
	if c.found > most {
		return
	}
	for _, side := range []struct {
		sign  string
		value reflect.Value
	}{{"-", want}, {"+", got}} {
		text := "nothing"
		switch v := side.value; {
		case !v.IsValid():
		case v.Kind() == reflect.String:
			text = fmt.Sprintf("%q", v.String())
		default:
			text = fmt.Sprintf("%+v", v)
		}
		fmt.Fprintf(&c.out, "%s %s: %s\n", side.sign, path, text)
	}
}

func (c *comparison) compare(path string, want, got reflect.Value) {
	if !want.IsValid() || !got.IsValid() || want.Type() != got.Type() {
		if want.IsValid() || got.IsValid() {
			c.differ(path, want, got)
		}
		return
	}
	if !c.equal(path, want, got) {
		c.differ(path, want, got)
	}
}

// equal compares two values of one type. It notes differences of parts itself.
func (c *comparison) equal(path string, want, got reflect.Value) bool {
	switch want.Kind() {
	case reflect.Float32, reflect.Float64:
		a, b := want.Float(), got.Float()
		return a == b || math.Abs(a-b) <= c.near*max(1, min(math.Abs(a), math.Abs(b)))
	case reflect.Struct:
		if want.Type() == reflect.TypeFor[time.Time]() && want.CanInterface() {
			return want.Interface().(time.Time).Equal(got.Interface().(time.Time))
		}
		for i := range want.NumField() {
			f := want.Type().Field(i)
			if c.exported && !f.IsExported() || slices.Contains(c.ignored, field{want.Type(), f.Name}) {
				continue
			}
			c.compare(path+"."+f.Name, want.Field(i), got.Field(i))
		}
		return true
	case reflect.Slice, reflect.Array:
		return c.lists(path, want, got)
	case reflect.Map:
		return c.maps(path, want, got)
	case reflect.Pointer:
		if want.Pointer() == got.Pointer() {
			return true
		}
		pair := [2]uintptr{want.Pointer(), got.Pointer()}
		if want.IsNil() || got.IsNil() || c.visited[pair] {
			return c.visited[pair]
		}
		c.visited[pair] = true
		c.compare(path, want.Elem(), got.Elem())
		return true
	case reflect.Interface:
		c.compare(path, want.Elem(), got.Elem())
		return true
	case reflect.Func:
		return want.IsNil() && got.IsNil()
	}
	return want.Equal(got)
}

func (c *comparison) lists(path string, want, got reflect.Value) bool {
	if want.Kind() == reflect.Slice && want.IsNil() != got.IsNil() {
		return c.empty && want.Len() == 0 && got.Len() == 0
	}
	for i := range max(want.Len(), got.Len()) {
		var a, b reflect.Value
		if i < want.Len() {
			a = want.Index(i)
		}
		if i < got.Len() {
			b = got.Index(i)
		}
		c.compare(fmt.Sprintf("%s[%d]", path, i), a, b)
	}
	return true
}

func (c *comparison) maps(path string, want, got reflect.Value) bool {
	if want.IsNil() != got.IsNil() {
		return c.empty && want.Len() == 0 && got.Len() == 0
	}
	keys := want.MapKeys()
	for _, k := range got.MapKeys() {
		if !want.MapIndex(k).IsValid() {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		c.compare(fmt.Sprintf("%s[%+v]", path, k), want.MapIndex(k), got.MapIndex(k))
	}
	return true
}
