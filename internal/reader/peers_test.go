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

// replay prints every sample of the named files as CPython's own reader returns it.
const replay = `
import json, sys
import _remote_debugging

def dumps(o):
    return json.dumps(o, ensure_ascii=False, separators=(",", ":"))

class Collector:
    def collect(self, stack_frames, timestamps_us=None):
        for interpreter in stack_frames:
            for thread in interpreter.threads:
                frames = dumps([[f[0], f[2], -1 if f[1] is None else f[1][0]] for f in thread.frame_info])
                for t in timestamps_us:
                    print('{"thread_id":%d,"interpreter_id":%d,"timestamp":%d,"status":%d,"frames":%s}' % (
                        thread.thread_id, interpreter.interpreter_id, t, thread.status, frames))

sys.stdout.reconfigure(encoding="utf-8", errors="surrogatepass")
for path in sys.argv[1:]:
    reader = _remote_debugging.BinaryReader(path)
    reader.replay(Collector())
    reader.close()
`

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
		cmd := exec.Command(testenv.Python315(t), "-c", replay, path)
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
