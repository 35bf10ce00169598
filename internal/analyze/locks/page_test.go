package locks

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/analyze/analyzetest"
	"github.com/gotach/profiler/internal/testenv"
)

// TestWaitsPage holds the table of docs/waits.md: go test ./internal/analyze -run TestWaitsPage -update.
func TestWaitsPage(t *testing.T) {
	const path, begin, end = "../../../docs/waits.md", "<!-- known -->\n", "<!-- /known -->"
	b := analyzetest.Must(os.ReadFile(path))(t)
	before, rest, ok1 := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	var table strings.Builder
	table.WriteString("| who waits in | waits for |\n|---|---|\n")
	for _, k := range knownWaits {
		fmt.Fprintf(&table, "| `%s` | %s |\n", k.in, k.what)
	}
	testenv.Golden(t, path, before+begin+table.String()+end+after, *analyzetest.Update)
}
