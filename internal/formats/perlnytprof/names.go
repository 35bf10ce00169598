package perlnytprof

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gotach/profiler/internal/profile"
)

// Perl's tools take a name apart at "::" into package and sub, and warn about a
// name without it. nytprofcalls puts ";" between names, nytprofhtml writes them
// into pages unescaped and into a file with tabs and newlines between. Characters
// that look alike stand in for these.
var (
	standIns = []string{";", "\uff1b", "<", "‹", ">", "›", "\t", "␉", "\n", "␤", "\r", "␍", "\x00", "␀"}
	toPerl   = strings.NewReplacer(standIns...)
	fromPerl = strings.NewReplacer(reversed(standIns)...)
	oneLine  = strings.NewReplacer(standIns[6:]...) // for names of files
)

func reversed(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// perlName turns a Go function's name into one for Perl's tools:
// net/http.(*conn).serve into net/http::(*conn).serve. What a goroutine waits
// for, such as [chan receive], is the runtime's.
func perlName(name string) string {
	perl := name
	switch pkg := profile.PackageEnd(name); {
	case strings.HasPrefix(name, "["):
		perl = "runtime::" + name
	case pkg >= 0:
		perl = name[:pkg] + "::" + name[pkg+1:]
	case !strings.Contains(name, "::"):
		perl = "main::" + name
	}
	if i := strings.LastIndex(perl, "::"); i <= 0 || i+2 == len(perl) { // no package, or no sub
		perl = "main::" + cmp.Or(strings.ReplaceAll(name, "::", ""), "(unknown)")
	}
	return toPerl.Replace(perl)
}

// goName undoes perlName.
func goName(name string) string {
	name = fromPerl.Replace(name)
	if strings.HasPrefix(name, "runtime::[") {
		return name[len("runtime::"):]
	}
	return strings.Replace(name, "::", ".", 1)
}
