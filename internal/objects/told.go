package objects

import (
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// Told has the objects that a file knows.
type Told struct {
	kinds []string         // by number: the kind that the file knows; "": it does not know the object
	Fresh []tachyon.Object // those that the file does not know yet
}

// Use notes that a sample has an object's number.
func (t *Told) Use(o *Object) {
	if int(o.Number) < len(t.kinds) && t.kinds[o.Number] == o.Kind {
		return
	}
	for _, member := range o.Of {
		t.Use(member)
	}
	for int(o.Number) >= len(t.kinds) {
		t.kinds = append(t.kinds, "")
	}
	t.kinds[o.Number] = o.Kind
	t.Fresh = append(t.Fresh, o.Object)
}

// Forget begins a file.
func (t *Told) Forget() { clear(t.kinds) }

// Connection names a connection with the local address at and the peer's address to, which are ""
// if there is none. Of one that was accepted, it names the local port and the peer without its
// port, which differs with each connection.
func Connection(network, at, to string, accepted bool) string {
	switch {
	case to == "" && at == "":
		return network // a pair of Unix sockets
	case to == "": // of Unix sockets only the one that is dialed has a name
		return network + " " + at + " from a client"
	case network == "tcp" && accepted:
		return network + " " + at[strings.LastIndexByte(at, ':'):] + " from " + to[:strings.LastIndexByte(to, ':')]
	}
	return network + " " + to
}

// File says what a descriptor is that is no socket, given what its link in /proc/PID/fd says. The
// kind is "" if that is not known.
func File(link string) (kind, name string) {
	of, what, ok := strings.Cut(link, ":") // pipe:[4711]
	what = strings.TrimSuffix(strings.TrimPrefix(what, "["), "]")
	switch {
	case ok && of == "pipe":
		return tachyon.ObjectPipe, "pipe " + what
	case ok && of == "anon_inode":
		return tachyon.ObjectFile, what // such as eventfd
	case strings.HasPrefix(link, "/"):
		return tachyon.ObjectFile, "file " + link
	}
	return "", ""
}
