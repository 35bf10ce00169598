package testenv

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
)

// Must returns v, and panics if there is an error. It is for the steps of a test that have to
// succeed before there is something to check.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Must2 is Must for two values.
func Must2[T, U any](v T, w U, err error) (T, U) {
	if err != nil {
		panic(err)
	}
	return v, w
}

// Closes returns c, which it closes when the test ends.
func Closes[C io.Closer](t interface{ Cleanup(func()) }, c C) C {
	t.Cleanup(func() { c.Close() })
	return c
}

// test is a test of package testing, or a check of package rapid.
type test interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
}

// OK ends the test if there is an error. Helper looks at the stack, so it is called only then: some
// tests call OK for each sample.
func OK(t test, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Fails fails the test unless there is an error whose text contains want. With want "" there must
// be no error.
func Fails(t test, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%.80s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%.80s: error %v, want %q", what, err, want)
	}
}

// NoDiff fails the test if there is a difference, as package cmp tells one.
func NoDiff(t test, what, diff string) {
	t.Helper()
	if diff != "" {
		t.Errorf("%s", strings.TrimSpace(what+" (-want +got):\n"+diff))
	}
}

// FailIf fails the test with a message if something is wrong.
func FailIf(t test, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// StopIf ends the test with a message if something is wrong.
func StopIf(t test, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatal(fmt.Sprintf(format, args...))
	}
}

// Same fails the test unless two values are equal.
func Same[T comparable](t test, what any, got, want T) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, want %v", what, got, want)
	}
}

// Prints fails the test unless values print as a text, with spaces between them.
func Prints(t test, what any, want string, got ...any) {
	if text := strings.TrimSuffix(fmt.Sprintln(got...), "\n"); text != want {
		t.Helper()
		t.Errorf("%v: %s, want %s", what, text, want)
	}
}

// SameList fails the test unless two lists are equal.
func SameList[T comparable](t test, what any, got, want []T) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Errorf("%v: %+v, want %+v", what, got, want)
	}
}

// Is fails the test unless an error is the one that is wanted.
func Is(t test, what any, err, want error) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%v: error %v, want %v", what, err, want)
	}
}

// All yields the values of a sequence and ends the test at an error.
func All[V any](t test, list iter.Seq2[V, error]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for v, err := range list {
			if OK(t, err); !yield(v) {
				return
			}
		}
	}
}

// Within fails the test unless a value is from least to most.
func Within[T cmp.Ordered](t test, what any, got, least, most T) {
	if !(least <= got && got <= most) {
		t.Helper()
		t.Errorf("%v: %v, want %v to %v", what, got, least, most)
	}
}

// Has fails the test unless a text has all the parts.
func Has(t test, what, text string, parts ...string) {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Helper()
			t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}

// Empty fails the test if something is left in a folder.
func Empty(t test, dir string) {
	t.Helper()
	for _, left := range Must(os.ReadDir(dir)) {
		t.Errorf("left in %s: %s", dir, left.Name())
	}
}

// Err returns the error of a call.
func Err[T any](_ T, err error) error { return err }
