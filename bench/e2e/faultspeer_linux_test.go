//go:build peers

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"
)

func TestPeerFullDisk(t *testing.T) {
	checkFault(t, filepath.Join(testenv.Disk(t, "4k"), "x.tach"), func(string) error { return nil }, syscall.ENOSPC)
}

// A file system that is full, or a folder that is gone or read-only for some time does not end a session. Each second is in a file or counted as missing,
// and what is not in a file is said.
func TestPeerDiskComesBack(t *testing.T) {
	for name, c := range map[string]struct{ begin, end func(dir string) error }{
		"full": {
			func(dir string) error {
				f, err := os.Create(filepath.Join(dir, "ballast"))
				if err != nil {
					return err
				}
				b := make([]byte, 4096)
				for err == nil {
					_, err = f.Write(b)
				}
				if f.Close(); !errors.Is(err, syscall.ENOSPC) {
					return err
				}
				return nil
			},
			func(dir string) error { return os.Remove(filepath.Join(dir, "ballast")) },
		},
		"folder gone": {
			func(dir string) error { return os.Rename(dir+"/out", dir+"/away") },
			func(dir string) error { return os.Rename(dir+"/away", dir+"/out") },
		},
		"read-only": { // nothing can be made, renamed or deleted there
			func(dir string) error {
				return errors.Join(unix.Mount(dir+"/out", dir+"/out", "", unix.MS_BIND, ""), unix.Mount("", dir+"/out", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			},
			func(dir string) error { return unix.Unmount(dir+"/out", 0) },
		},
	} {
		for _, rotate := range []string{"", "1s"} {
			t.Run(name+rotate, func(t *testing.T) {
				t.Setenv("PROFILE_ROTATE", rotate)
				dir := testenv.Disk(t, "64m")
				testenv.OK(t, os.Mkdir(dir+"/out", 0o700))
				log := &testenv.Log{}
				s := profiler.Start(profiler.Output(dir+"/out/x.tach"), profiler.Budget(100), profiler.Compression(profiler.Uncompressed), profiler.Logger(log.Logger()))
				stop := make(chan bool)
				for i := range 100 {
					go func() {
						for n := 0; ; n++ {
							select {
							case <-stop:
								return
							default:
								deep(n*i%200, func() { time.Sleep(time.Millisecond) })
							}
						}
					}()
				}
				time.Sleep(time.Second)
				testenv.OK(t, c.begin(dir))
				time.Sleep(2 * time.Second)
				testenv.OK(t, c.end(dir))
				time.Sleep(2 * time.Second)
				err := s.Stop()
				close(stop)
				t.Log(err, log.Lines())
				var covered, unwritten time.Duration
				files, err := filepath.Glob(dir + "/out/*.tach") // Files has none that were finished while the folder was gone
				testenv.OK(t, err)
				for _, path := range files {
					r := testenv.Must(reader.Open(path))
					if _, err := r.VerifyChecksum(); err != nil {
						t.Error(err)
					}
					m := testenv.Must(r.Metadata())
					covered, unwritten = covered+m.Session.Duration, unwritten+m.Session.Unwritten
					t.Log(filepath.Base(path), m.Session.Duration, m.Session.Unwritten, m.Session.Dropped, r.Unfinished(), strings.TrimSpace(m.Session.Error))
					r.Close()
				}
				st := s.Stats()
				if covered < st.Duration-100*time.Millisecond || unwritten != st.Unwritten {
					t.Errorf("the files cover %v of %v, %v of it are unwritten, Stats says %v", covered, st.Duration, unwritten, st.Unwritten)
				}
			})
		}
	}
}
