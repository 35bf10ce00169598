package dcpi

import (
	"bufio"
	"fmt"
	"io"
)

// Cat writes the profile as dcpicat(1) prints one, the text that other tools
// (HPCToolkit's xprof among them) take DCPI profiles in: what the header says,
// then a line for each address that has samples.
func (p *Profile) Cat(w io.Writer) error {
	b := bufio.NewWriter(w)
	row := func(key, format string, args ...any) {
		fmt.Fprintf(b, "%-20s %s\n", key, fmt.Sprintf(format, args...))
	}
	row("name", "%s", p.ImageName())
	for _, word := range []string{"image", "label", "path", "epoch", "platform"} {
		if v, ok := p.Value(word); ok {
			row(word, "%s", v)
		}
	}
	row("text_start", "0x%012x", p.TextStart())
	row("text_size", "0x%012x", p.TextSize())
	event, _ := p.Value("event")
	_, samples := p.Total()
	// The last number is the fraction of time that the event was counted, times
	// 10000: events that shared a counter had less.
	row("event", "%d %s:%d:10000", samples, event, p.Period())
	for c := range p.Counts() {
		fmt.Fprintf(b, "0x%012x %7d\n", c.Addr, c.Count)
	}
	return b.Flush()
}
