package pprof

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// A compressor writes gzipped data. A goroutine of its own compresses, while the caller makes more.
type compressor struct {
	full  chan []byte
	free  chan []byte
	ended chan struct{}
	err   error // after ended was closed
	close func() error
}

func newCompressor(w io.Writer) *compressor {
	c := &compressor{full: make(chan []byte, 4), free: make(chan []byte, 4), ended: make(chan struct{})}
	c.close = sync.OnceValue(func() error {
		close(c.full)
		<-c.ended
		return c.err
	})
	go func() {
		defer close(c.ended)
		z := gzip.NewWriter(w)
		for b := range c.full {
			if c.err == nil {
				_, c.err = z.Write(b)
			}
			select {
			case c.free <- b:
			default:
			}
		}
		if err := z.Close(); c.err == nil {
			c.err = err
		}
	}()
	return c
}

// Write implements io.Writer. Errors may come from Close only.
func (c *compressor) Write(b []byte) (int, error) {
	var buf []byte
	select {
	case buf = <-c.free:
	default:
	}
	c.full <- append(buf[:0], b...)
	return len(b), nil
}

// Close finishes the data. Further calls return the same error.
func (c *compressor) Close() error { return c.close() }
