package room

import "strings"

func middle() int {
	p := part{size: len(strings.Repeat("a", bottom()))}
	return p.size + nameless()
}
