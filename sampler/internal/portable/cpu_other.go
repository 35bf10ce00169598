//go:build !unix

package portable

import "time"

// processTime returns false: on this system the CPU time of the process is not known.
func processTime() (time.Duration, bool) { return 0, false }
