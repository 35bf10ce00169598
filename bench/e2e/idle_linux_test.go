//go:build (amd64 || arm64) && peers

package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/testenv/servers"
)

// TestPeerIdle runs testdata/peers and does with it what TestIdleRecordings does with its recordings. It takes
// only the kinds of the standard library, since the others take minutes to build. The step night takes all,
// with PostgreSQL and Redis from Debian and a NATS server in the program, and with -update makes the recordings.
// Under load the far ends of waits are right too.
func TestPeerIdle(t *testing.T) {
	env, tags, kinds := os.Environ(), "std", []string{"http1", "http2"}
	f := &farEnds{}
	if testenv.Times(0, 1) == 1 {
		tags, kinds = "", append(kinds, "xhttp2", "grpc", "sql", "nats", "redis")
		f.redis = servers.Redis(t)
		dsn := servers.Postgres(t)
		f.postgres = "unix " + testenv.Must(url.Parse(dsn)).Query().Get("host") + "/.s.PGSQL.5432"
		env = append(env, "PEERS_POSTGRES="+dsn, "PEERS_REDIS="+f.redis)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "peers")
	build := exec.Command("go", "build", "-tags", tags, "-o", bin, ".")
	build.Dir, build.Env = "testdata/peers", append(os.Environ(), "GOWORK=off") // a module that is not in the workspace
	load := "2s"
	if *update {
		load = "500ms" // recordings must be small
		build.Args = slices.Insert(build.Args, 2, "-trimpath")
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, kind := range kinds {
		for _, name := range []string{kind + "-none", kind + "-load"} {
			t.Run(name, func(t *testing.T) {
				profile, log := filepath.Join(dir, name+".tach"), filepath.Join(dir, name+".log")
				how := load
				if name == kind+"-none" {
					how = "none"
				}
				run := exec.Command(bin, kind, how, profile, log)
				run.Env = env
				if out, err := run.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				checkIdle(t, profile, log, 0.05)
				if how != "none" && kind != "xhttp2" && kind != "grpc" {
					f.check(t, profile)
				}
				if *update && tags == "" {
					keepRecording(t, profile, log, "testdata/idle")
				}
			})
		}
	}
}

// keepRecording copies a recording and its log, packed, into a folder.
func keepRecording(t *testing.T, profile, log, dir string) {
	t.Helper()
	for _, path := range []string{profile, log} {
		b := testenv.Must(os.ReadFile(path))
		if path == log {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, err := w.Write(b)
			testenv.OK(t, errors.Join(err, w.Close()))
			b, path = packed.Bytes(), path+".gz"
		}
		testenv.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, 0o644))
	}
}
