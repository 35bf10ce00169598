//go:build peers

package reader_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// TestPeerCPython compares the samples of the file big with those of the installed CPython. What
// CPython prints for it, half a gigabyte, is not in testdata. It does the same with a part of these
// samples in a file of gotach's writer, with metadata and several buffers.
func TestPeerCPython(t *testing.T) {
	big := open(t, filepath.Join(testdata, "cpython-3.15", "big.zstd.bin"))
	ours := filepath.Join(t.TempDir(), "ours.tach")
	w := testenv.Must(writer.Create(ours, writer.Options{Layout: tachyon.CPython315, Interval: 1000}))
	for _, f := range big.Frames() {
		w.Intern(f)
	}
	n := 0
	for s, err := range big.Samples() {
		if testenv.OK(t, errors.Join(err, w.Write(s))); n == 60_000 {
			break
		}
		n++
	}
	testenv.OK(t, errors.Join(w.AddMetadata("session", map[string]string{"program": "test"}), w.Close()))
	for _, path := range []string{ours, filepath.Join(testdata, "cpython-3.15", "big.zstd.bin")} {
		want, got := sha256.New(), sha256.New()
		cmd := exec.Command(testenv.Python315(t), "testdata/replay.py", path)
		cmd.Stdout, cmd.Stderr = want, os.Stderr
		testenv.OK(t, cmd.Run())
		in := testenv.Closes(t, testenv.Must(formats.Open(path, formats.Options{})))
		r, dump := io.Pipe()
		go func() { dump.CloseWithError(in.Dump(dump)) }()
		lines := bufio.NewReaderSize(r, 1<<20)
		for line, err := lines.ReadSlice('\n'); err != io.EOF; line, err = lines.ReadSlice('\n') {
			if testenv.OK(t, err); !bytes.HasPrefix(line, []byte(`{"gotach"`)) { // what CPython does not have
				got.Write(line)
			}
		}
		testenv.SameList(t, path, got.Sum(nil), want.Sum(nil))
	}
}
