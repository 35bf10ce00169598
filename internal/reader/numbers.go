package reader

// Numbers gives numbers to ids, of which most are successive, as those of goroutines. So most
// look-ups take no hash, and an id takes some 7 bytes, or 120 if its 15 neighbours have none. K is
// the id divided by 16, and what else tells ids apart. The zero value is empty.
type Numbers[K comparable] struct {
	groups map[K]*[16]uint32
	at     K // the group used last
	near   *[16]uint32
}

// Of returns the number of an id, 0 if it has none. The caller may set it, until the next call.
func (n *Numbers[K]) Of(group K, id uint64) *uint32 {
	if n.near == nil || n.at != group {
		if n.groups == nil {
			n.groups = map[K]*[16]uint32{}
		}
		if n.at, n.near = group, n.groups[group]; n.near == nil {
			n.near = new([16]uint32)
			n.groups[group] = n.near
		}
	}
	return &n.near[id&15]
}

func (n *Numbers[K]) clear() {
	clear(n.groups)
	n.near = nil
}
