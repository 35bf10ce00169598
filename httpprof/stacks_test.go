package httpprof

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

//go:noinline
func waitsFirst(c chan struct{}) { <-c }

//go:noinline
func waitsThen(c chan struct{}) { <-c }

// TestStacks: at and format=stacks send what goroutines did then, also of a goroutine that does something else now.
func TestStacks(t *testing.T) {
	for _, bad := range []string{"at=5s&format=stacks", "at=-5s", "format=stacks", "at=x&format=stacks", "at=-5s&last=5s&format=stacks", "at=-2562047h47m16.854775808s&format=stacks"} {
		if a := ask(t.Context(), bad); a.code != http.StatusBadRequest {
			t.Errorf("%s: status %d", bad, a.code)
		}
	}
	if a := ask(t.Context(), "at=-1ms&format=stacks"); a.code != http.StatusServiceUnavailable {
		t.Errorf("without a session the status is %d", a.code)
	}
	first, then, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		waitsFirst(first)
		waitsThen(then)
	}()
	defer func() { close(then); <-done }()
	open(t)
	has := func(at, text string) bool {
		a := ask(t.Context(), "at=-"+at+"&format=stacks")
		return a.code == http.StatusOK && strings.Contains(string(a.body), text)
	}
	const both = "]:\ngithub.com/gotach/profiler/httpprof.waitsFirst(...)\n"
	var was time.Time
	testenv.Await(func() bool { was = time.Now(); return has("1ms", both) })
	close(first)
	testenv.Await(func() bool { return has("1us", "httpprof.waitsThen(...)") })
	var text string
	asBefore := func() bool { return strings.Contains(text, both) && !strings.Contains(text, "waitsThen") }
	testenv.Await(func() bool { // a request that is late asks for a later moment
		text = string(ask(t.Context(), "at=-"+time.Since(was).String()+"&format=stacks").body)
		return asBefore()
	})
	if !asBefore() || !strings.Contains(text, "created by github.com/gotach/profiler/httpprof.TestStacks in goroutine ") {
		t.Errorf("before, goroutines did\n%s", text)
	}
}
