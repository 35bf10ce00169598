package attach

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
)

//go:generate go run ../../../../internal/goruntime/gen -older -o older_gen.go go1.25.3 go1.24.13 go1.23.12 go1.22.12 go1.21.13 go1.20.14 go1.19.13

// layoutOf returns the layout for a version as the program's build information has it, such as "go1.26.8", and its
// second number.
func layoutOf(version string) (*goruntime.Layout, int, error) {
	key := goruntime.Release(version)
	if l := cmp.Or(goruntime.Layouts[key], older[key]); l != nil {
		minor, err := strconv.Atoi(strings.TrimPrefix(key, "go1."))
		return l, minor, err
	}
	return nil, 0, fmt.Errorf("the runtime of Go version %q is not known here; Go 1.19 to 1.27 are", version)
}
