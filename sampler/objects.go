package sampler

import (
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// objectList has the objects that the sink knows in this part of the session.
type objectList struct {
	kinds []string         // by number: the kind that the sink knows; "": it does not know the object
	fresh []tachyon.Object // those that the sink does not know yet
}

// use notes that a sample has an object's number.
func (l *objectList) use(o *source.Object) {
	if int(o.Number) < len(l.kinds) && l.kinds[o.Number] == o.Kind {
		return
	}
	for _, member := range o.Of {
		l.use(member)
	}
	for int(o.Number) >= len(l.kinds) {
		l.kinds = append(l.kinds, "")
	}
	l.kinds[o.Number] = o.Kind
	l.fresh = append(l.fresh, o.Object)
}

// forget begins a part.
func (l *objectList) forget() { clear(l.kinds) }
