package broken

import "math"

var _ = math.Rot13
