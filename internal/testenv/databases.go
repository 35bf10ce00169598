package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// DuckDB returns the path of node and the directory with the package @duckdb/node-api that
// duckdb.sh unpacked.
func DuckDB(t testing.TB) (node, dir string) { return database(t, "duckdb", "DuckDB") }

// Chdb returns the path of node and the directory with the package chdb that chdb.sh unpacked:
// ClickHouse in one process.
func Chdb(t testing.TB) (node, dir string) { return database(t, "chdb", "ClickHouse (chdb)") }

// Collector returns the OpenTelemetry Collector that collector.sh built.
func Collector(t testing.TB) string {
	t.Helper()
	return cached(t, "an OpenTelemetry Collector", "collector", "otelcol")
}

// Parca returns the program that parca.sh built.
func Parca(t testing.TB) string {
	t.Helper()
	return cached(t, "Parca", "parca", "parca")
}

// KubectlValidate returns the program that kubectl-validate.sh built.
func KubectlValidate(t testing.TB) string {
	t.Helper()
	return cached(t, "kubectl-validate", "kubectl-validate", "kubectl-validate")
}

// cached returns the path of a program that internal/testenv/NAME.sh makes.
func cached(t testing.TB, title, name, program string) string {
	t.Helper()
	if cache, err := os.UserCacheDir(); err == nil {
		path := filepath.Join(cache, "gotach-peers", name, program)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	Skip(t, "no "+title+": get it with internal/testenv/"+name+".sh")
	return ""
}

func database(t testing.TB, name, title string) (node, dir string) {
	t.Helper()
	node = Command(t, "node", "apt-get install nodejs")
	if cache, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(cache, "gotach-peers", name)
		if _, err := os.Stat(filepath.Join(dir, "version")); err == nil {
			return node, dir
		}
	}
	Skip(t, "no "+title+": get it with internal/testenv/"+name+".sh")
	return "", ""
}
