package attach

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/goruntime"
)

//go:generate go run ../../../../internal/goruntime/gen -older -o older_gen.go go1.25.3 go1.24.13 go1.23.12 go1.22.12 go1.21.13 go1.20.14 go1.19.13

// layoutOf returns the layout for a version as the program's build information has it, such as "go1.26.8", and its
// second number.
func layoutOf(version string) (*goruntime.Layout, int, error) {
	v, _, _ := strings.Cut(version, " ")
	v, suffix, _ := strings.Cut(v, "-")
	major, rest, _ := strings.Cut(v, ".")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	minor, err := strconv.Atoi(digits)
	if err == nil && major == "go1" && !strings.HasPrefix(suffix, "devel") {
		key := major + "." + digits
		if l := goruntime.Layouts[key]; l != nil {
			return l, minor, nil
		}
		if l := older[key]; l != nil {
			return l, minor, nil
		}
	}
	return nil, 0, fmt.Errorf("the runtime of Go version %q is not known here; Go 1.19 to 1.27 are", version)
}
