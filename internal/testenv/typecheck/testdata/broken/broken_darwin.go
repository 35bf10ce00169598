package broken

import "strings"

var _ = strings.Rot13
