//go:build peers

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/internal/reader"
	"github.com/gotach/profiler/internal/testenv"

	"golang.org/x/sys/unix"
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
					testenv.Must(r.VerifyChecksum())
					m := testenv.Must(r.Metadata())
					covered, unwritten = covered+m.Session.Duration, unwritten+m.Session.Unwritten
					t.Log(filepath.Base(path), m.Session.Duration, m.Session.Unwritten, m.Session.Dropped, r.Unfinished(), strings.TrimSpace(m.Session.Error))
					r.Close()
				}
				st := s.Stats()
				testenv.FailIf(t, covered < st.Duration-100*time.Millisecond, "the files cover %v of %v", covered, st.Duration)
				testenv.Same(t, "what is unwritten", unwritten, st.Unwritten)
			})
		}
	}
}

// TestPeerDeadlock runs programs with a deadlock and programs that only wait for long, some of them for other programs, with and
// without a session. In the first kind the session must end with a finished file. In the second kind it must go on.
// They wait for minutes in sum.
func TestPeerDeadlock(t *testing.T) {
	bin := buildProgram(t, "deadlock")
	dead := []string{"channel", "nil", "mutex", "group", "cond", "select", "goexit", "cancelled timer", "after work"}
	alive := []string{"sleep", "after", "afterfunc", "timers", "ticker", "fast ticker", "deadline", "syscall", "command", "pipe", "pipe alone", "signal"}
	var all sync.WaitGroup
	free := make(chan bool, 16) // the programs hardly use the CPU, so many can run at once
	for _, setting := range []string{"", "PROFILE_SOURCE=native GOMAXPROCS=2", "PROFILE_SOURCE=portable GOMAXPROCS=2", "PROFILE_SOURCE=native GOMAXPROCS=1", "PROFILE_SOURCE=portable GOMAXPROCS=1"} {
		for _, name := range append(dead, alive...) {
			isDead := slices.Contains(dead, name)
			if setting == "" && !isDead || setting == "PROFILE_SOURCE=portable GOMAXPROCS=1" && isDead {
				continue // nothing to compare; with GOMAXPROCS=1 the portable source cannot find a deadlock
			}
			path := filepath.Join(t.TempDir(), "x.tach")
			free <- true
			all.Go(func() {
				defer func() { <-free }()
				waiting(t, bin, name, setting, path, isDead)
			})
		}
	}
	all.Wait()
}
