package reader

import (
	"iter"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/tachyon"
)

// Stops yields how often goroutines stopped running, in order of time, about a second at a time. A *Stops is valid until the next
// one. There may be several with the same Until. An error comes with nil and ends the iteration.
func (r *Reader) Stops() iter.Seq2[*tachyon.Stops, error] {
	return func(yield func(*tachyon.Stops, error) bool) {
		err := r.blocks(func(b []byte) (int, error) {
			return decode.Stops(b, func(s *tachyon.Stops) error {
				if !yield(s, nil) {
					return errStop
				}
				return nil
			})
		})
		if err != nil && err != errStop {
			yield(nil, err)
		}
	}
}
