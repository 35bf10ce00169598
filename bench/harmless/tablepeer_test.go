//go:build linux && (amd64 || arm64) && peers

package harmless

import (
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// TestPeerHarmTable runs the cells that TestHarmTable leaves out, and all cases without the profiler. With -update it runs all
// cases and writes the tables of docs/harm.md.
func TestPeerHarmTable(t *testing.T) {
	testenv.Command(t, "gcc", "apt-get install gcc")
	harmTable(t, func(s *harmSection, c *harmCase, source string) bool {
		return *update || !cellOfTest(s, c, source) && (!c.night || testenv.Times(0, 1) == 1)
	})
}
