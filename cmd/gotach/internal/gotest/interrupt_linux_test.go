package gotest

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// An interrupt that only this process gets ends the tests, as Ctrl-C does, and what they did until then is in the profile. It is for
// Linux, because go test does not pass interrupts on, and only there its tests are found. The module has a vendor directory.
func TestInterrupt(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir := filepath.Join(unpack(t, "vendored"), "vendored")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		testenv.Await(func() bool { return exists(filepath.Join(dir, "begun")) })
	}()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "x.tach")
	res, err := Run(ctx, Options{Args: []string{"-C=" + dir, "-v", "."}, Output: file, Stdout: &out, Stderr: &out})
	testenv.OK(t, err)
	testenv.FailIf(t, res.Code != 1 || !strings.Contains(out.String(), "signal: interrupt\nFAIL\texample.com/vendored"), "code %d: %s", res.Code, out.String())
	found, _ := labels(t, file, "")
	testenv.FailIf(t, found[test{"example.com/vendored", "TestVendored"}] == 0, "the test is not in the profile: %v", found)
}
