package reader

import "io"

// A readAhead reads from another reader in a goroutine, so that data is decompressed while earlier
// data is decoded. It has two buffers. Close ends the goroutine.
type readAhead struct {
	full chan readBuffer // closed by the goroutine when it ends
	free chan []byte     // closed by Close
	rest readBuffer
	buf  []byte // of rest
}

// A readBuffer has data, and the error that came after them.
type readBuffer struct {
	data []byte
	err  error
}

const aheadSize = 128 << 10 // bytes

func newReadAhead(r io.Reader) *readAhead {
	a := &readAhead{full: make(chan readBuffer, 2), free: make(chan []byte, 2)}
	for range 2 {
		a.free <- make([]byte, aheadSize)
	}
	go func() {
		defer close(a.full)
		for b := range a.free {
			n, err := io.ReadFull(r, b)
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			a.full <- readBuffer{b[:n], err}
			if err != nil {
				return
			}
		}
	}()
	return a
}

// Read implements io.Reader.
func (a *readAhead) Read(b []byte) (int, error) {
	for len(a.rest.data) == 0 {
		if a.rest.err != nil {
			return 0, a.rest.err
		}
		if a.buf != nil {
			a.free <- a.buf
		}
		a.rest = <-a.full
		a.buf = a.rest.data[:cap(a.rest.data)]
	}
	n := copy(b, a.rest.data)
	a.rest.data = a.rest.data[n:]
	return n, nil
}

// Close ends the goroutine and waits for it.
func (a *readAhead) Close() {
	close(a.free)
	for range a.full {
	}
}
