package reader

import (
	"encoding/json"
	"iter"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/tachyon"
)

// Objects yields the descriptions of objects in the order of the file, without keeping them. An
// object may come several times; the last description counts. An error comes with a nil object and
// ends the iteration.
func (r *Reader) Objects() iter.Seq2[*tachyon.Object, error] {
	return func(yield func(*tachyon.Object, error) bool) {
		err := r.blocks(func(b []byte) (int, error) {
			return decode.Objects(b, func(text []byte) error {
				o := &tachyon.Object{}
				if err := json.Unmarshal(text, o); err != nil {
					return err
				}
				if !yield(o, nil) {
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
