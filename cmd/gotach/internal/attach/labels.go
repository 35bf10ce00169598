//go:build linux && (amd64 || arm64)

package attach

import (
	"errors"
)

// Bounds of what is read as labels: the pointer may lead anywhere by the time that it is followed.
const (
	maxLabels     = 64
	maxLabelBytes = 4096
)

var errLabels = errors.New("these are no labels")

// labels reads the labels of the goroutine at g, whose g.labels was ptr. It returns nil if the goroutine has others by then, or
// if they cannot be read: before Go 1.24 they are a map of the runtime.
func (p *Process) labels(g, ptr uint64) map[string]string {
	if ptr == 0 || p.program.minor < 24 {
		return nil
	}
	out, err := p.labelList(ptr)
	if now, again := p.word(g + uint64(p.program.layout.GLabels)); err != nil || again != nil || now != ptr {
		return nil
	}
	return out
}

// labelList reads a slice of pairs of strings.
func (p *Process) labelList(ptr uint64) (map[string]string, error) {
	var slice [16]byte
	if err := p.read(ptr, slice[:]); err != nil {
		return nil, err
	}
	n := le.Uint64(slice[8:])
	if n > maxLabels {
		return nil, errLabels
	}
	b, err := p.bytes(le.Uint64(slice[:]), n*32)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, n)
	for ; len(b) > 0; b = b[32:] {
		var s [2]string
		for i := range s {
			size := le.Uint64(b[i*16+8:])
			if size > maxLabelBytes {
				return nil, errLabels
			}
			text, err := p.bytes(le.Uint64(b[i*16:]), size)
			if err != nil {
				return nil, err
			}
			s[i] = string(text)
		}
		out[s[0]] = s[1]
	}
	return out, nil
}
