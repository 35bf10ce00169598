package dcpi

import (
	"bufio"
	"fmt"
	"io"
)

// Cat writes the profile as dcpicat(1) prints it: the values of the header, then a
// line for each address that has samples. Other tools read this text, such as
// HPCToolkit's xprof.
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
	// The last number is the fraction of time in which the event was counted, times
	// 10000. It is less for events that share a hardware counter.
	row("event", "%d %s:%d:10000", samples, event, p.Period())
	for c := range p.Counts() {
		fmt.Fprintf(b, "0x%012x %7d\n", c.Addr, c.Count)
	}
	return b.Flush()
}
