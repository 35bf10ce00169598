package reader_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gotach/profiler/internal/formats"
	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/internal/wire"
)

// FuzzMetadata puts arbitrary text in place of metadata and calls all its users.
func FuzzMetadata(f *testing.F) {
	f.Add(`{"gotach":"session","program":"p","goos":"linux","pid":1,"start":"2026-01-02T03:04:05Z","duration_ns":1000,"source":"native","vcs":{"vcs.revision":"x"}}`,
		`{"gotach":"goroutines","goroutines":[{"id":1,"created_by":"main.main","created_at":"m.go:3","first_us":1,"last_us":9,"labels":[{"from_us":2,"labels":{"k":"v"}},{"from_us":3,"labels":{}}]}]}`)
	f.Add(`{"gotach":"pcs","text_start":4096,"text_size":100,"pcs":[{"a":4100,"c":1,"w":2,"ct":10,"wt":20},{"a":4101,"w":1}]}`, `{"gotach":"checksum","crc32c":0}`)
	f.Add(`{"gotach":"session","rate":-1,"interval":1e99,"start":"0000-00-00"}`, `{"gotach":"session"}`)
	f.Add(`{"gotach":"goroutines","goroutines":[{},{},{},null]}`, `{"gotach":"another","x":[[[[[[]]]]]]}`)
	f.Add(`{"gotach":null`, `{"other":1}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		b := builder{samples: 2, threads: 1, strings: []string{"f.go", "f", first, second}, frames: [][3]int64{{0, 1, 1}}}
		b.record(1, 0, wire.Full, 1, 3, 1, 0)
		b.record(1, 0, wire.Repeat, 1, 1000, 0)
		data := b.bytes()
		n := testenv.Allocated(func() {
			fuzzMetadata(t, data)
			in, err := formats.OpenReader(bytes.NewReader(data), "fuzz", formats.Options{})
			if err != nil {
				return
			}
			defer in.Close()
			_, _ = in.Info()
			_, _ = in.Report(profile.ReportOptions{})
			_ = in.Write(io.Discard, "pprof", formats.Options{})
		})
		if bound := memoryBound(len(data)); n > bound {
			t.Errorf("%d bytes allocated for a file of %d, want at most %d", n, len(data), bound)
		}
	})
}

func fuzzMetadata(t *testing.T, data []byte) {
	r, err := reader.New(bytes.NewReader(data))
	if err != nil && strings.Contains(err.Error(), "record section") || err != nil && strings.Contains(err.Error(), `metadata of kind "records"`) {
		return // the text names a section that is not there
	}
	testenv.OK(t, err)
	defer r.Close()
	m, err := r.Metadata()
	if err != nil {
		var format *reader.FormatError
		if !errors.As(err, &format) || format.Offset < 0 || format.Offset > int64(len(data)) || m != nil {
			t.Fatalf("Metadata: %v, %v", m, err)
		}
		return
	}
	for _, o := range r.MetadataObjects() {
		if !json.Valid([]byte(o)) {
			t.Errorf("%q is no JSON, but there is no error", o)
		}
	}
	if present, err := r.VerifyChecksum(); present != (m.Checksum != nil) || !present && err != nil {
		t.Errorf("checksum %v, VerifyChecksum: %v, %v", m.Checksum, present, err)
	}
}
