package profile

import (
	"fmt"
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// describe says in one line how a session sampled.
func describe(s *tachyon.Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "source %s, %.0f of %d ticks/s, %d samples, %d dropped", s.Source, s.RateReached, s.Rate, s.Samples, s.Dropped)
	if s.GoVersion != "" {
		fmt.Fprintf(&b, ", %s %s/%s", s.GoVersion, s.GOOS, s.GOARCH)
	}
	return b.String()
}
