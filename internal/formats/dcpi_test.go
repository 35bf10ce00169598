package formats

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
)

const dcpiGoldens = "dcpi/testdata"

func TestDCPIWithoutItsExecutable(t *testing.T) {
	var warnings []error
	o := Options{Warn: func(err error) { warnings = append(warnings, err) }}
	in := openInput(t, filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), o)
	if in.Format.Name != "dcpi" {
		t.Errorf("taken for %s", in.Format.Name)
	}
	r, err := in.Report(profile.ReportOptions{Top: 1})
	if err != nil {
		t.Fatal(err)
	}
	if row := r.Rows[0]; row.Name != "server+0x40f0c1" || row.Self != 1200*time.Millisecond || r.Left != 5 || r.Samples != 134 {
		t.Errorf("got %+v", r)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "the executable /srv/app/server is gone") {
		t.Errorf("warnings are %v", warnings)
	}
}

func TestDCPICycles(t *testing.T) {
	p, err := openInput(t, filepath.Join(dcpiGoldens, "2-unknown-lines.dcpi"), Options{}).Profile()
	if err != nil {
		t.Fatal(err)
	}
	// 47 samples of 63488 cycles at 333 MHz.
	if wall, cpu := p.Total(); wall != 47*190654 || cpu != wall {
		t.Errorf("%v, %v on CPU", wall, cpu)
	}
}

func TestDumpDCPI(t *testing.T) {
	in := openInput(t, filepath.Join(dcpiGoldens, "2-unknown-lines.dcpi"), Options{})
	var b bytes.Buffer
	if err := in.Dump(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range map[int]string{
		0:  `{"word":"version","value":"pdb-0.06"}`,
		18: `{"word":"note","value":"café"}`,
		20: `{"address":"0x12006cbb8","count":29}`,
		25: `{"address":"0x12006cbe8","count":2}`,
		26: "",
	} {
		if lines[i] != want {
			t.Errorf("line %d is %s, want %s", i, lines[i], want)
		}
	}
	if s, err := in.Verify(); err != nil || s != "1 profile, 2 chunks, 6 addresses, 47 samples" {
		t.Errorf("%s, %v", s, err)
	}
}

func TestDCPICat(t *testing.T) {
	in := openInput(t, filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), Options{})
	var got bytes.Buffer
	if err := in.Write(&got, "dcpicat", Options{}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dcpiGoldens, "1-go-sparse.cat"))
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
}

func TestDCPINeedsAddresses(t *testing.T) {
	sums := filepath.Join(t.TempDir(), "x.folded")
	if err := os.WriteFile(sums, []byte("main;work 12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		sums:                              "needs the addresses of instructions, and a collapsed file names functions",
		session(t, nil, nil):              "has no addresses of instructions, and names no executable",
		goldens + "/document-v2/tiny.bin": "was not recorded by gotach",
	} {
		err := convert(in, filepath.Join(t.TempDir(), "db"), "dcpi", Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", in, err, want)
		}
	}
	err := convert(filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), filepath.Join(t.TempDir(), "x.tach"), "", Options{})
	if err == nil || !strings.Contains(err.Error(), "a dcpi file has only sums") {
		t.Errorf("error is %v", err)
	}
}

func TestDCPILax(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old")
	if err := os.WriteFile(path, bytes.Replace(b, []byte("tstart\t401000\n"), nil, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "no tstart line") {
		t.Errorf("error is %v", err)
	}
	openInput(t, path, Options{Lax: true})
}
