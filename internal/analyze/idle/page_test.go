package idle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
)

// TestIdlePage holds the table of docs/idle.md: go test ./internal/analyze -run TestIdlePage -update.
func TestIdlePage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| function | calls | waits for | with labels |\n|---|---|---|---|\n")
	places := slices.Clone(idleTable)
	slices.SortStableFunc(places, func(a, b idlePlace) int { return cmp.Or(cmp.Compare(a.in, b.in), cmp.Compare(a.call, b.call)) })
	for _, p := range places {
		call, always := "`"+p.call+"`", ""
		switch p.call {
		case "":
			call = "–"
		case "*":
			call = "any"
		}
		if p.always {
			always = "idle"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", p.in, call, p.what, always)
	}
	testenv.Marked(t, "../../../docs/idle.md", "places", table.String(), *analyzetest.Update)
}
