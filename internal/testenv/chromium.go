package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Chromium returns the path of Debian's browser, for tests of what people see. It takes
// $GOTACH_CHROMIUM, or the first one that PATH has. Under the race detector and with -short the
// test is skipped: the script runs in the browser.
func Chromium(t testing.TB) string {
	t.Helper()
	if raceBuild || testing.Short() {
		t.Skip("it does the same without the race detector, and runs without -short")
	}
	for _, name := range []string{os.Getenv("GOTACH_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	Skip(t, "no Chromium: get it with apt-get install chromium")
	return ""
}
