package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/gotach/profiler"
	"github.com/gotach/profiler/reader"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gotach":  main,
		"killed":  killed,
		"rotates": rotates,
	})
}

// killed OUT is a program that writes a profile to OUT and kills itself.
func killed() {
	s := profiler.Start(profiler.Output(os.Args[1]))
	time.Sleep(100 * time.Millisecond)
	for begin := time.Now(); written(os.Args[1]) == 0 && time.Since(begin) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	if s.Err() != nil {
		os.Exit(1)
	}
	die()
}

// written returns the number of samples in an unfinished file.
func written(path string) uint64 {
	r, err := reader.Open(path)
	if err != nil {
		return 0
	}
	defer r.Close()
	return r.Header().Samples
}

// die kills the process. os.Exit is different: with -race it takes a second, during which
// the session continues.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// rotates OUT is a program that writes a profile to three files and kills itself while it
// writes the third. Its environment may have further settings.
func rotates() {
	s := profiler.Start(profiler.Output(os.Args[1]), profiler.RotateEvery(time.Second))
	for begin := time.Now(); len(s.Files()) < 2 && time.Since(begin) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	if s.Err() != nil {
		os.Exit(1)
	}
	die()
}

// TestScripts runs scripts that check the command's output and exit codes. The variables
// $GOLDEN, $SPX and $DCPI are the folders of golden files of Tachyon, SPX and DCPI.
func TestScripts(t *testing.T) {
	golden, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOLDEN", golden+"/../../testdata/tachyon")
			env.Setenv("SPX", golden+"/../../internal/formats/spx/testdata")
			env.Setenv("DCPI", golden+"/../../internal/formats/dcpi/testdata")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}

// code N COMMAND ARG... runs a command that must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%v exits with %d, want %d", args[1:], got, want)
	}
}
