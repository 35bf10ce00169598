package own

import (
	"runtime"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// createdBy returns the creator of the calling goroutine as runtime.Stack prints it.
func createdBy() string {
	buf := make([]byte, 1<<16)
	_, text, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "\ncreated by ")
	name, _, _ := strings.Cut(text, " in goroutine ")
	return name
}

func TestCreated(t *testing.T) {
	by := make(chan string)
	Ordinary(func() { by <- createdBy() })
	testenv.Same(t, "by Ordinary", Created(<-by), true)
	Go(func() {
		by <- createdBy()
		go func() { by <- createdBy() }()
	})
	testenv.Same(t, "by Go", Created(<-by), true)
	name := <-by
	testenv.Prints(t, "by a go statement within Go's function: "+name, "true false", name != "", Created(name))
	testenv.Same(t, "the main goroutine", Created(""), false)
}

type hideMe struct{}

func (hideMe) method() string { return caller() }

// caller returns the name of the calling function, as in stacks.
//
//go:noinline
func caller() string {
	pc := make([]uintptr, 1)
	runtime.Callers(2, pc)
	f, _ := runtime.CallersFrames(pc).Next()
	return f.Function
}

func hideThis() string { HideCaller(); return caller() }

func TestHidden(t *testing.T) {
	name := hideMe{}.method()
	Hide(hideMe.method)
	testenv.Prints(t, name+" is hidden, its value, the caller of HideCaller", "true true true", Hidden(name), Hidden(name+"-fm"), Hidden(hideThis()))
	testenv.Prints(t, "other functions are hidden", "false false", Hidden(""), Hidden(caller()))
}
