//go:build linux && (amd64 || arm64)

package attach

// Bounds of what is read as labels: the pointer may lead anywhere by the time that it is followed.
const (
	maxLabels     = 64
	maxLabelBytes = 4096
)

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
	b, err := p.bytes(ptr, 16)
	if err == nil {
		b, err = p.slice(b, 32, maxLabels)
	}
	out := map[string]string{}
	for ; err == nil && len(b) > 0; b = b[32:] {
		var key, value []byte
		if key, err = p.slice(b, 1, maxLabelBytes); err == nil {
			value, err = p.slice(b[16:], 1, maxLabelBytes)
		}
		out[string(key)] = string(value)
	}
	return out, err
}
