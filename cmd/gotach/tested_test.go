package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/cmd/gotach/internal/gotest"
)

// The exit code of go test comes first, then a profile that is not there, then a comparison. It is made also if tests fail.
func TestTested(t *testing.T) {
	old, now := filepath.Join(t.TempDir(), "old.tach"), filepath.Join(t.TempDir(), "new.tach")
	writeFixture(old, differs, "0")
	writeFixture(now, differs, "50")
	passed, failed, none := gotest.Result{Packages: 1, Tests: 1}, gotest.Result{Code: 1, Packages: 1, Tests: 1}, fmt.Errorf("none: %w", gotest.ErrNone)
	for _, c := range []struct {
		res             gotest.Result
		err             error
		diff, failAbove string
		code            int
		out, errs       string
	}{
		{passed, nil, "", "", 0, "", "new.tach has 1 test of 1 package; next: "},
		{failed, nil, "", "", 1, "", "new.tach has 1 test of 1 package; next: "},
		{passed, nil, old, "", 0, "main.extra", "next: "},
		{passed, nil, old, "20%", 3, "main.extra", "which is above 20%"},
		{failed, nil, old, "20%", 1, "main.extra", "next: "},
		{gotest.Result{}, none, "", "", 0, "", "there is no profile: none"},
		{gotest.Result{}, none, old, "", 1, "", "there is no profile: none"},
		{gotest.Result{Code: 2}, none, old, "", 2, "", "there is no profile: none"},
		{gotest.Result{}, errors.New("the disk is full"), "", "", 1, "", "there is no profile: the disk is full"},
		{gotest.Result{Without: []string{"example.com/x: why"}}, nil, "", "", 0, "", "not in the profile: example.com/x: why"},
	} {
		var out, errs strings.Builder
		e := &env{ctx: t.Context(), started: true, stdout: &output{w: &out}, stderr: &output{w: &errs}}
		code := e.exit(tested(e, testFlags{now, c.diff, c.failAbove}, &c.res, c.err))
		if code != c.code || !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0 || !strings.Contains(errs.String(), c.errs) {
			t.Errorf("%+v: code %d\n%s%s", c, code, &out, &errs)
		}
	}
}
