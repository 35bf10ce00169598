package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// NPM returns the path of node and the directory of a package that npm.sh unpacked, such as
// "speedscope".
func NPM(t testing.TB, name string) (node, dir string) {
	t.Helper()
	node = Command(t, "node", "apt-get install nodejs")
	if cache, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(cache, "gotach-peers", "npm", name)
		if _, err := os.Stat(filepath.Join(dir, "package.json")); err == nil {
			return node, dir
		}
	}
	Skip(t, "no npm's package "+name+": get it with internal/testenv/npm.sh")
	return "", ""
}
