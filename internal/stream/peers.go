package stream

import (
	"strings"

	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/tachyon"
)

// Peers returns the names of connections, listeners, pipes and files that goroutines wait for in
// [IO wait], by the number of the object in the stream. Options.Objects must be set.
func (s *Source) Peers() (map[int32]string, error) {
	names := map[int32]string{}
	err := s.EachObject(func(o *tachyon.Object) {
		if o.Name != "" {
			names[o.Number] = o.Name
		}
	})
	return names, err
}

// ObjectOf returns the number of what a goroutine waits for, given its innermost frame; 0: none.
func ObjectOf(leaf *tachyon.Frame) int32 {
	if reader.IsObject(leaf) {
		return leaf.Line
	}
	return 0
}

// IsPeer reports whether the name of a connection or file is the one that somebody asks for. want
// is a name such as "tcp 10.2.3.4:5432", or the address or path in it, or only its host, or only a
// port such as ":5432".
func IsPeer(name, want string) bool {
	if name == want {
		return true
	}
	_, at, _ := strings.Cut(name, " ")
	own, from, accepted := strings.Cut(at, " from ")
	host := own
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		if want == host[i:] {
			return true
		}
		host = host[:i]
	}
	return want != "" && (want == at || want == own || want == host || accepted && want == from)
}

// Accepted returns the address at which the program has accepted a connection, given its name, and
// whether it has.
func Accepted(name string) (at string, accepted bool) {
	if strings.HasPrefix(name, "file ") {
		return "", false
	}
	at, _, accepted = strings.Cut(name, " from ")
	return at, accepted
}

// PeerText returns a name as it stands in a sentence: an address without "tcp", a file without
// "file".
func PeerText(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "tcp "), "file ")
}
