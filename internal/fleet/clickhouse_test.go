package fleet

import (
	"os"
	"testing"
)

// ClickHouse gives the same results. The library is large, so this is for the step night.
func TestPageClickHouse(t *testing.T) {
	if os.Getenv("GOTACH_ENGINES") == "" {
		t.Log("only with GOTACH_ENGINES=all")
		return
	}
	testPage(t, &clickHouse, 1)
}
