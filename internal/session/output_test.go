package session

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestExpand(t *testing.T) {
	start := time.Date(2026, 11, 21, 6, 48, 44, 0, time.UTC)
	pid := fmt.Sprint(os.Getpid())
	for in, want := range map[string]string{
		"app.tach":        "app.tach",
		"%p":              pid,
		"a-%p-%p.tach":    "a-" + pid + "-" + pid + ".tach",
		"/tmp/%e.tach":    "/tmp/" + programName() + ".tach",
		"%h/%t":           fileName(hostname()) + "/20261121T064844",
		"100%%":           "100%",
		"%x 50%":          "%x 50%",
		"%":               "%",
		"%%p":             "%p",
		"ünïcode-%%-%t.x": "ünïcode-%-20261121T064844.x",
	} {
		if got := expand(in, start); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
	if got := fileName("a/b\x00c"); got != "a_b_c" {
		t.Errorf("fileName returns %q, want the path element a_b_c", got)
	}
}
