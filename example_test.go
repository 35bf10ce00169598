package profiler_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/gotach/profiler"
	_ "github.com/gotach/profiler/export" // for Export
)

// The usual way: one line at the top of main.
func ExampleStart() {
	defer profiler.Start().Stop() // writes $PROFILE_OUT, else ./<program>-<pid>.tach
}

// Options in the code have the same effect as the environment variables. There are a few more of them.
func ExampleStart_options() {
	dir, _ := os.MkdirTemp("", "example-")
	defer os.RemoveAll(dir)

	defer profiler.Start(
		profiler.Output(filepath.Join(dir, "%e-%t.tach")),
		profiler.Rate(200),
		profiler.Budget(0.5),
		profiler.Export("pprof", filepath.Join(dir, "wall.pb.gz")),
	).Stop()
}

// Open returns the error that Start would log.
func ExampleOpen() {
	s, err := profiler.Open(profiler.Output("/no/such/directory/app.tach"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop()
	// Output: gotach: open /no/such/directory/app.tach: no such file or directory
}

// Stop returns the first error of the session. A program that does not depend on its
// profile may ignore the error.
func ExampleSession_Stop() {
	dir, _ := os.MkdirTemp("", "example-")
	defer os.RemoveAll(dir)

	s := profiler.Start(profiler.Output(filepath.Join(dir, "app.tach")))
	// ... the program's work ...
	if err := s.Stop(); err != nil {
		log.Print(err)
	}
	fmt.Println(filepath.Base(s.Path()), s.Err())
	// Output: app.tach <nil>
}

func ExampleRotateEvery() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)

	// Begin a new file every minute or at 100 MB, and keep a day's files, at most 5 GB.
	s := profiler.Start(
		profiler.Output(filepath.Join(dir, "app.tach")),
		profiler.RotateEvery(time.Minute),
		profiler.RotateBytes(100_000_000),
		profiler.KeepFiles(24*60),
		profiler.KeepBytes(5_000_000_000),
	)
	s.Stop()
	fmt.Println(filepath.Base(s.Files()[0]))
	// Output: app.1.tach
}
