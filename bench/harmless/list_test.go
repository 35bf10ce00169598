//go:build linux && (amd64 || arm64)

package harmless

import (
	"fmt"
	"strings"
	"testing"
)

// TestHarmSuites compares the list of suites with docs/harm.md, or writes it with -update.
func TestHarmSuites(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| suite | of | packages | tests |\n|---|---|---|---|\n")
	for _, s := range suites {
		of := "the standard library"
		if s.module != "" {
			of = "`" + s.module + "`"
		}
		which := "all"
		switch {
		case s.run != "":
			which = "some"
		case s.skip != "":
			which = "most"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", s.name, of, strings.Join(s.pkgs, "`, `"), which)
	}
	b.WriteByte('\n')
	written(t, "suites", b.String())
}
