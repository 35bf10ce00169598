//go:build peers

package fleet

import (
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	pb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

// build builds static programs into a directory that every user can read.
func build(t *testing.T, dir string, packages map[string]string) {
	t.Helper()
	for program, path := range packages {
		cmd := exec.Command("go", "build", "-ldflags=-s", "-o", filepath.Join(dir, program), path)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	testenv.OK(t, os.Chmod(dir, 0o755))
}

// listens waits until somebody listens at an address, at most a minute.
func listens(t *testing.T, address string) {
	t.Helper()
	var err error
	testenv.Await(func() bool {
		var c net.Conn
		if c, err = net.Dial("tcp", address); err == nil {
			c.Close()
		}
		return err == nil
	})
	testenv.OK(t, err)
}

// received reads the first profile, that of wall time, of a message of push. host is its attribute host.name.
func received(r *http.Request) (wall *pb.Profile, host string, err error) {
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, "", err
	}
	var d pb.ProfilesData
	b, err := io.ReadAll(z)
	if err := errors.Join(err, proto.Unmarshal(b, &d)); err != nil {
		return nil, "", err
	}
	for _, a := range d.ResourceProfiles[0].Resource.Attributes {
		if a.Key == "host.name" {
			host = a.Value.GetStringValue()
		}
	}
	return d.ResourceProfiles[0].ScopeProfiles[0].Profiles[0], host, nil
}

// profiles returns what the files of a directory have added up.
func profiles(t *testing.T, dir string, atLeast int) (list []*profile.Profile) {
	t.Helper()
	paths := testenv.Files(t, filepath.Join(dir, "*.tach"), atLeast)
	for _, path := range paths {
		in := testenv.Must(formats.Open(path, formats.Options{}))
		defer in.Close()
		list = append(list, testenv.Must(in.Profile()))
	}
	return list
}
