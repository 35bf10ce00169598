package nytprof

import "strings"

// Perl's tools take a name apart at "::" into package and sub, and warn about a
// name without it. nytprofcalls puts ";" between names, and nytprofhtml writes
// them into pages unescaped. Characters that look alike stand in for these.
var (
	toPerl   = strings.NewReplacer(";", "\uff1b", "<", "‹", ">", "›", "\n", "␤")
	fromPerl = strings.NewReplacer("\uff1b", ";", "‹", "<", "›", ">", "␤", "\n")
)

// perlName turns a Go function's name into one for Perl's tools:
// net/http.(*conn).serve into net/http::(*conn).serve. What a goroutine waits
// for, such as [chan receive], is the runtime's.
func perlName(name string) string {
	switch pkg := packageEnd(name); {
	case strings.HasPrefix(name, "["):
		name = "runtime::" + name
	case pkg >= 0:
		name = name[:pkg] + "::" + name[pkg+1:]
	case !strings.Contains(name, "::"):
		name = "main::" + name
	}
	return toPerl.Replace(name)
}

// goName undoes perlName.
func goName(name string) string {
	name = fromPerl.Replace(name)
	if strings.HasPrefix(name, "runtime::[") {
		return name[len("runtime::"):]
	}
	return strings.Replace(name, "::", ".", 1)
}

// packageEnd returns where in a Go function's name the dot after the import path
// is, or -1. Type arguments and receivers hold dots and slashes of their own.
func packageEnd(name string) int {
	head := name
	if i := strings.IndexAny(name, "[("); i >= 0 {
		head = name[:i]
	}
	slash := strings.LastIndexByte(head, '/') + 1
	if dot := strings.IndexByte(head[slash:], '.'); dot >= 0 {
		return slash + dot
	}
	return -1
}
