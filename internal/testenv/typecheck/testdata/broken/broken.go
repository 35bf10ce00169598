// Package broken has errors on some systems.
package broken

import "math"

const most = math.MaxInt32

var beyond int = most + 1 // too large where an int has 32 bits
