package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// testdata/compatibility has files of earlier versions, which testdata/compatibility/record wrote. The command reads each, and its JSON
// has all that it had when the version was new, and perhaps more. With -update the test writes the JSON of files that have none.
func TestCompatibility(t *testing.T) {
	versions := testenv.Files(t, "../../testdata/compatibility/v*", 1)
	for _, dir := range versions {
		files, _ := filepath.Glob(filepath.Join(dir, "*.*"))
		read := 0
		for _, path := range files {
			name := filepath.Base(path)
			if strings.HasSuffix(name, ".tach") || strings.HasSuffix(name, ".bin") {
				read++
				t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) { reads(t, path) })
			}
		}
		if read < 7 {
			t.Errorf("%s has %d files", dir, read)
		}
	}
}

// reads checks what the command says of one file.
func reads(t *testing.T, path string) {
	file := filepath.Join(t.TempDir(), filepath.Base(path))
	must(os.WriteFile(file, testenv.Must(os.ReadFile(path)), 0o600))
	if packed, err := os.Open(path + ".journal.gz"); err == nil {
		defer packed.Close()
		must(os.WriteFile(file+".journal", testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(packed)))), 0o600))
	}
	got := map[string]any{}
	for _, args := range []string{"info", "report --idle --by function", "report --idle --by label:worker"} {
		var v any
		text, errs, code := ran(append(strings.Fields(args), "--json", file)...)
		if err := json.Unmarshal([]byte(text), &v); err != nil || code != exitOK {
			t.Fatalf("%s: exit code %d, %v\n%s%s", args, code, err, text, errs)
		}
		got[args] = v
	}
	golden := path + ".json"
	if _, err := os.Stat(golden); err != nil && *update {
		must(os.WriteFile(golden, append(testenv.Must(json.MarshalIndent(got, "", " ")), '\n'), 0o644))
	}
	var want any
	must(json.Unmarshal(testenv.Must(os.ReadFile(golden)), &want))
	for _, lack := range lacks(got, want, "") {
		t.Error(lack)
	}
}

// lacks says what of want got does not have. Got may have more keys.
func lacks(got, want any, at string) (list []string) {
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for k, w := range want {
			g, ok := got[k]
			if !ok {
				list = append(list, fmt.Sprintf("%s.%s is missing", at, k))
				continue
			}
			list = append(list, lacks(g, w, at+"."+k)...)
		}
	case []any:
		got, _ := got.([]any)
		if len(got) != len(want) {
			return []string{fmt.Sprintf("%s has %d elements, want %d", at, len(got), len(want))}
		}
		for i, w := range want {
			list = append(list, lacks(got[i], w, fmt.Sprintf("%s[%d]", at, i))...)
		}
	default:
		if got != want {
			list = append(list, fmt.Sprintf("%s is %v, want %v", at, got, want))
		}
	}
	return list
}
