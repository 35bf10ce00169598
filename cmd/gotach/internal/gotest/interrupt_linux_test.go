package gotest

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
)

// An interrupt that only this process gets ends the tests, as Ctrl-C does, and what they did until then is in the profile. It is for
// Linux, because go test does not pass interrupts on, and only there its tests are found. The module has a vendor directory.
func TestInterrupt(t *testing.T) {
	testenv.Long(t)
	dir := filepath.Join(unpack(t, "vendored"), "vendored")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil && !exists(filepath.Join(dir, "begun")) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	defer cancel()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "x.tach")
	res, err := Run(ctx, Options{Args: []string{"-C=" + dir, "-v", "."}, Output: file, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if res.Code != 1 || !strings.Contains(out.String(), "signal: interrupt\nFAIL\texample.com/vendored") {
		t.Errorf("code %d: %s", res.Code, out.String())
	}
	if found, _ := labels(t, file, ""); found[test{"example.com/vendored", "TestVendored"}] == 0 {
		t.Errorf("the test is not in the profile: %v", found)
	}
}
