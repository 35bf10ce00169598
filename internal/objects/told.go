package objects

import "github.com/gotach/profiler/tachyon"

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
