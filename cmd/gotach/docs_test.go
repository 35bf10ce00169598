package main

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/testenv"
)

var update = flag.Bool("update", false, "write the table of formats in docs/formats.md")

// The table of formats in docs/formats.md is that of the code. With -update the test writes it.
func TestDocFormats(t *testing.T) {
	mark := map[bool]string{true: "yes", false: "–"}
	keeps := func(f *formats.Format) string {
		switch {
		case f.Series:
			return "samples"
		case f.Runs:
			return "runs"
		}
		return "sums"
	}
	var b strings.Builder
	b.WriteString("| format | read | write | keeps | files | what it is |\n|---|---|---|---|---|---|\n")
	for _, f := range formats.All() {
		files := "`" + strings.Join(f.Extensions, "` `") + "`"
		if f.Directory {
			files = "a directory, " + files
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, mark[f.CanRead()], mark[f.CanWrite()], keeps(f), files, f.Doc)
	}
	testenv.Marked(t, "../../docs/formats.md", "formats", b.String(), *update)
}
