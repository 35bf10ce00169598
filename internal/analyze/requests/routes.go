package requests

import (
	"regexp"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
)

var (
	connectHandler = analyze.RequestKinds[analyze.KindConnect].Function
	grpcMethod     = regexp.MustCompile(`\._\w+_Handler$`) // generated for each method
)

// A route is a handler of requests. Its name is "" if no sample shows the handler.
type route struct {
	kind  uint8
	debug bool   // it looks at the program itself, and is no work of the program
	name  string // function
	// depth says how much of the way to the handler the stack shows. Middleware calls it: the
	// deepest route of a request is its handler.
	depth uint8
}

// route returns the number of the route that a stack is in.
func (f *finder) route(stack uint32, a *anchor) uint32 {
	r := route{kind: a.kind, name: a.function}
	if f.o.Func == nil {
		f.handler(stack, a, &r)
	}
	return f.routes.Of(r)
}

// handler sets all of a route but its kind, which it changes to KindConnect.
func (f *finder) handler(stack uint32, a *anchor, r *route) {
	var way []uint32 // the stacks of functions down to the one of the request, innermost first
	served := -1     // index of the function that calls the handler, or is it
	for at := stack; at != a.below && at != 0; at = f.Caller(at) {
		leaf := f.Leaf(at)
		if profile.PackageEnd(leaf.Func) < 0 || leaf.File == "" {
			continue // why it waits, or a part of the runtime
		}
		r.debug = r.debug || analyze.DebugHandler.MatchString(leaf.Func)
		if a.kind == analyze.KindHTTP && analyze.CallsHandler.MatchString(leaf.Func) {
			if r.depth = min(r.depth+2, 254); served < 0 {
				served = len(way)
			}
		} else if served >= 0 && f.CodeOf(at) == profile.ProgramCode {
			f.wrappers[leaf.Func] = true
		}
		way = append(way, at)
	}
	if len(way) == 0 {
		return
	}
	if served < 0 {
		served = len(way) - 1
	}
	name := func(i int) string { return f.Leaf(way[i]).Func }
	switch r.name = name(served); {
	case a.kind != analyze.KindHTTP, r.name == "net/http.serverHandler.ServeHTTP", r.name == "net/http.(*ServeMux).ServeHTTP":
		r.name = "" // it calls no handler yet, or not any more
	case r.name == "net/http.HandlerFunc.ServeHTTP" && served > 0:
		r.name = name(served - 1)
	}
	if connectHandler.MatchString(name(served)) {
		r.kind = analyze.KindConnect
	}
	for i := served; i >= 0; i-- {
		if a.kind == analyze.KindGRPC && !grpcMethod.MatchString(name(i)) || f.CodeOf(way[i]) != profile.ProgramCode && a.kind != analyze.KindGRPC {
			continue
		}
		r.name = name(i)
		r.depth++
		return
	}
}
