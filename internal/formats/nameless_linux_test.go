package formats

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// While a file is written there is nothing that a kill could leave.
func TestReplaceLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	w, _ := nameless(dir)
	if w == nil {
		testenv.Skip(t, "the file system has no files without a name")
	}
	w.Close()
	out, bad := filepath.Join(dir, "k.tach"), errors.New("bad")
	for i, text := range []string{"first", "second", ""} {
		err := Replace(out, func(w io.Writer) error {
			testenv.Same(t, fmt.Sprintf("files while %q is written", text), len(testenv.Must(os.ReadDir(dir))), min(i, 1))
			if text == "" {
				return bad
			}
			_, err := io.WriteString(w, text)
			return err
		})
		if text == "" && !errors.Is(err, bad) || text != "" && err != nil {
			t.Error(err)
		}
		if i == 0 {
			testenv.OK(t, os.Chmod(out, 0o640))
		}
	}
	testenv.Same(t, "the file", fmt.Sprint(string(testenv.Must(os.ReadFile(out))), testenv.Must(os.Stat(out)).Mode()), "second-rw-r-----")
	testenv.Same(t, "files left", len(testenv.Must(os.ReadDir(dir))), 1)
}
