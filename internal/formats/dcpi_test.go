package formats

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/profile"
	"github.com/gotach/profiler/internal/testenv"
)

const dcpiGoldens = "dcpi/testdata"

func TestDCPIWithoutItsExecutable(t *testing.T) {
	var warnings []error
	o := Options{Warn: func(err error) { warnings = append(warnings, err) }}
	in := openInput(t, filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), o)
	if in.Format.Name != "dcpi" {
		t.Errorf("taken for %s", in.Format.Name)
	}
	r := testenv.Must(in.Report(profile.ReportOptions{Top: 1}))
	if row := r.Rows[0]; row.Name != "server+0x40f0c1" || row.Self != 1200*time.Millisecond || r.Left != 5 || r.Samples != 134 {
		t.Errorf("got %+v", r)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "the executable /srv/app/server is gone") {
		t.Errorf("warnings are %v", warnings)
	}
}

func TestDumpDCPI(t *testing.T) {
	in := openInput(t, filepath.Join(dcpiGoldens, "2-unknown-lines.dcpi"), Options{})
	p := testenv.Must(in.Profile())
	if wall, cpu := p.Total(); wall != 47*190654 || cpu != wall { // 63488 cycles at 333 MHz each
		t.Errorf("%v, %v on CPU", wall, cpu)
	}
	var b bytes.Buffer
	testenv.OK(t, in.Dump(&b))
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
	testenv.OK(t, in.Write(&got, "dcpicat", Options{}))
	want := testenv.Must(os.ReadFile(filepath.Join(dcpiGoldens, "1-go-sparse.cat")))
	if got.String() != string(want) {
		t.Errorf("got\n%s", got.String())
	}
}

func TestDCPINeedsAddresses(t *testing.T) {
	sums := filepath.Join(t.TempDir(), "x.folded")
	testenv.OK(t, os.WriteFile(sums, []byte("main;work 12\n"), 0o600))
	for in, want := range map[string]string{
		sums:                              "needs the addresses of instructions, and a collapsed file names functions",
		session(t, nil):                   "has no addresses of instructions, and names no executable",
		goldens + "/document-v2/tiny.bin": "was not recorded by gotach",
	} {
		err := convert(in, filepath.Join(t.TempDir(), "db"), "dcpi", Options{})
		testenv.Fails(t, in, err, want)
	}
	err := convert(filepath.Join(dcpiGoldens, "1-go-sparse.dcpi"), filepath.Join(t.TempDir(), "x.tach"), "", Options{})
	testenv.Fails(t, "", err, "a dcpi file has only sums")
}

func TestDCPILax(t *testing.T) {
	b := testenv.Must(os.ReadFile(filepath.Join(dcpiGoldens, "1-go-sparse.dcpi")))
	path := filepath.Join(t.TempDir(), "old")
	testenv.OK(t, os.WriteFile(path, bytes.Replace(b, []byte("tstart\t401000\n"), nil, 1), 0o600))
	testenv.Fails(t, "", testenv.Err(Open(path, Options{})), "no tstart line")
	openInput(t, path, Options{Lax: true})
}
