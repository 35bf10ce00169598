package gotest

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ args, packages, build, rest string }{
		{"", "", "", ""},
		{"./...", "./...", "", "./..."},
		{"-run X ./a ./b -v", "./a ./b", "", "-run X ./a ./b -v"},
		{"-run=X -race -tags t,u ./a", "./a", "-race -tags t,u", "-run=X -race -tags t,u ./a"},
		{"--v -count 3 . -short x", ".", "", "--v -count 3 . -short x"},
		{"-mod=vendor -modfile m.mod ./a", "./a", "", "./a"},
		{"./a -args ./b -run", "./a", "", "./a -args ./b -run"},
		{"./a -update ./b -run", "./a", "", "./a -update ./b -run"}, // the test binary's flag
		{"-test.v -test.run X ./a", "./a", "", "-test.v -test.run X ./a"},
		{"-C dir ./a", "./a", "", "-C dir ./a"},
	} {
		c, err := parse(strings.Fields(tc.args))
		if err != nil {
			t.Errorf("%s: %v", tc.args, err)
			continue
		}
		for _, v := range []struct {
			what, want string
			got        []string
		}{{"packages", tc.packages, c.packages}, {"build flags", tc.build, c.build}, {"arguments", tc.rest, c.args}} {
			if !slices.Equal(v.got, strings.Fields(v.want)) {
				t.Errorf("%s: %s are %q, want %q", tc.args, v.what, v.got, v.want)
			}
		}
	}
	c, err := parse([]string{"-C=d", "-count=2", "-overlay", "o.json", "-mod=mod", "-modfile=m.mod"})
	if err != nil || c.dir != "d" || !c.counted || c.overlay != "o.json" || c.mod != "mod" || c.modfile != "m.mod" {
		t.Errorf("%+v, %v", c, err)
	}
}
