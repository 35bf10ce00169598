package locks

import (
	"cmp"
	"strings"

	"github.com/gotach/profiler/internal/analyze"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/stream"
)

// FarEnds know the far ends of waits: the connection or file of one in [IO wait], and of one for an
// answer that another goroutine of a library reads the end of all connections of the library, if
// they have one, or that of the connection, with net/http's HTTP/1.
type FarEnds struct {
	s     *analyze.Samples
	peers map[int32]string  // by the number of the object
	far   map[string]string // see FarOfPackages
	http  map[int32]string  // by the number of a channel, see ofConnections
	of    []*string         // by stack; nil: not known yet
}

// NewFarEnds returns the far ends of samples that were read once. It reads them again if net/http
// has dialed several ends.
func NewFarEnds(s *analyze.Samples) (*FarEnds, error) {
	peers, err := s.Source.Peers()
	f := &FarEnds{s: s, peers: peers, far: FarOfPackages(s.Source, peers)}
	if name, ok := f.far["net/http"]; err == nil && ok && name == "" {
		err = f.ofConnections()
	}
	return f, err
}

// ofConnections finds the far ends of net/http's connections. Of each, one goroutine reads and one
// waits for the next request, or that the connection is closed; whoever waits for a response waits
// for that too, so for the same channel. One goroutine has started both of these and no others.
func (f *FarEnds) ofConnections() error {
	starts, ends, channels, file := map[uint64]uint64{}, map[uint64]string{}, map[int32]uint64{}, -1
	for x, err := range f.s.All() {
		if err != nil {
			return err
		}
		if x.File != file {
			file = x.File
			_, in := f.s.Source.File()
			for g, err := range in.Stream.Goroutines() {
				if err != nil {
					return err
				}
				if g.CreatedBy == "net/http.(*Transport).dialConn" && g.Parent != 0 {
					starts[f.s.Source.Goroutine(g.ID)] = f.s.Source.Goroutine(g.Parent)
				}
			}
		}
		by, ok := starts[x.Goroutine]
		if !ok || x.Stack == 0 || !analyze.Waits(x.Status) {
			continue
		}
		object := stream.ObjectOf(f.s.Leaf(x.Stack))
		other, known := channels[object]
		switch name := f.peers[object]; {
		case object == 0:
		case name != "":
			ends[by] = name
		case known && other != by: // memory was used again
			channels[object] = 0
		default:
			channels[object] = by
		}
	}
	f.http = map[int32]string{}
	for object, by := range channels {
		f.http[object] = ends[by]
	}
	return nil
}

// Of returns the far end of what a waiting goroutine waits for, as in Source.Peers, "" if it is not
// known. A pool is not at one.
func (f *FarEnds) Of(stack uint32) string {
	if stack == 0 {
		return ""
	}
	of := analyze.At(&f.of, stack, f.s.Stacks())
	if *of == nil {
		name := f.peers[stream.ObjectOf(f.s.Leaf(stack))]
		reason, callee, itself := analyze.Reason(f.s.Leaf(stack)), "", true
		for at := f.s.Caller(stack); name == "" && at != 0 && f.s.CodeOf(at) != profile.ProgramCode; at = f.s.Caller(at) {
			x := f.s.Leaf(at)
			if k := Known(x.Func); k.In(reason, callee, itself) != "" && k.pool == nil {
				name = cmp.Or(f.far[profile.Package(x.Func)], f.OfHTTP(stream.ObjectOf(f.s.Leaf(stack))))
				break
			}
			callee, itself = x.Func, itself && IsSync(x)
		}
		*of = &name
	}
	return **of
}

// OfHTTP returns the far end of a connection of net/http, given the number of the channel for which
// one waits that waits for a response, "" if it is not known.
func (f *FarEnds) OfHTTP(channel int32) string { return f.http[channel] }

// FarOfPackages returns the far end of all connections that a package has dialed, "" if they have
// several. A connection is that of the package in which the goroutine began that reads from it. The
// names of hosts are not looked up by the package.
func FarOfPackages(src *stream.Source, peers map[int32]string) map[string]string {
	far := map[string]string{}
	stacks, frames := src.Stacks(), src.Frames()
	for i := range stacks {
		if i == 0 { // it has no frame
			continue
		}
		object := stream.ObjectOf(&frames[stacks[i].Frame])
		if object == 0 {
			continue
		}
		name := peers[object]
		if name == "" || strings.Contains(name, " from ") || strings.HasPrefix(name, "udp ") {
			continue
		}
		root, accepts := "", false
		for at := uint32(i); at != 0; at = stacks[at].Caller {
			root = frames[stacks[at].Frame].Func
			accepts = accepts || strings.HasSuffix(root, "Listener).Accept")
		}
		if accepts {
			continue
		}
		in := profile.Package(root)
		if old, ok := far[in]; ok && old != name {
			name = ""
		}
		far[in] = name
	}
	return far
}
