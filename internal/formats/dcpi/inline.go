package dcpi

import (
	"cmp"
	"debug/dwarf"
	"slices"
)

// inlines finds, by DWARF, where the compiler inlined one function into another.
// Most executables have DWARF. The table by which Go programs find their functions
// has only the outer function.
type inlines struct {
	data  *dwarf.Data
	units []unit // ascending by low
	names map[dwarf.Offset]string
}

// unit is a range of addresses of a compilation unit; a unit may have several.
type unit struct {
	low, high uint64
	parts     *parts
}

// parts is a unit's inlined calls, read when one of its addresses is asked for.
type parts struct {
	unit   *dwarf.Entry
	read   bool
	bodies []body
}

// body is a range of addresses that belongs to an inlined call.
type body struct {
	low, high uint64
	depth     int // in the nesting of calls
	origin    dwarf.Offset
}

func newInlines(d *dwarf.Data) *inlines {
	in := &inlines{data: d, names: map[dwarf.Offset]string{}}
	for r := d.Reader(); ; r.SkipChildren() {
		e, err := r.Next()
		if e == nil || err != nil {
			break
		}
		ranges, err := d.Ranges(e)
		if err != nil {
			continue
		}
		p := &parts{unit: e}
		for _, a := range ranges {
			in.units = append(in.units, unit{a[0], a[1], p})
		}
	}
	slices.SortFunc(in.units, func(a, b unit) int { return cmp.Compare(a.low, b.low) })
	return in
}

// function returns the innermost inlined function at an address, or "".
func (in *inlines) function(addr uint64) string {
	i, found := slices.BinarySearchFunc(in.units, addr, func(u unit, a uint64) int { return cmp.Compare(u.low, a) })
	if !found {
		i--
	}
	if i < 0 || addr >= in.units[i].high {
		return ""
	}
	var best *body
	bodies := in.bodies(in.units[i].parts)
	for i := range bodies {
		b := &bodies[i]
		if b.low <= addr && addr < b.high && (best == nil || b.depth > best.depth) {
			best = b
		}
	}
	if best == nil {
		return ""
	}
	return in.name(best.origin)
}

func (in *inlines) bodies(p *parts) []body {
	if p.read {
		return p.bodies
	}
	p.read = true
	r := in.data.Reader()
	r.Seek(p.unit.Offset)
	depth := 0
	for {
		e, err := r.Next()
		if e == nil || err != nil {
			return p.bodies
		}
		switch e.Tag {
		case 0:
			if depth--; depth <= 0 {
				return p.bodies // the unit's own children end
			}
			continue
		case dwarf.TagInlinedSubroutine:
			origin, _ := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
			ranges, err := in.data.Ranges(e)
			if err != nil {
				break
			}
			for _, a := range ranges {
				p.bodies = append(p.bodies, body{a[0], a[1], depth, origin})
			}
		case dwarf.TagCompileUnit, dwarf.TagSubprogram, dwarf.TagLexDwarfBlock:
		default:
			if e.Children {
				r.SkipChildren()
			}
			continue
		}
		if e.Children {
			depth++
		}
	}
}

// name returns the name of the function that an inlined call is of.
func (in *inlines) name(origin dwarf.Offset) string {
	name, ok := in.names[origin]
	if !ok {
		r := in.data.Reader()
		r.Seek(origin)
		if e, err := r.Next(); err == nil && e != nil {
			name, _ = e.Val(dwarf.AttrName).(string)
		}
		in.names[origin] = name
	}
	return name
}
