//go:build measure && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	judge "github.com/gotach/profiler/internal/testenv/measure" // measure is a function of this package
)

// TestMeasureServers compares where gotach and runtime/pprof say that CPU time goes, in the same run: by how many points a
// function's share differs at most, of those with 2 % or more. At night that is all programs of bench/servers. The runs
// here are short, so their bound is that of chance: runtime/pprof has a hundred samples a second.
func TestMeasureServers(t *testing.T) {
	loads, conditions, tags := []string{"bursts"}, []string{"alone"}, "small"
	bound, length := 8.0, testenv.Times(4*time.Second, time.Minute)
	if length == time.Minute {
		loads = []string{"bursts", "tcp", "mixed", "short", "nats", "etcd", "caddy", "victoria"}
		conditions, tags, bound = []string{"alone", "beside 3", "half a core"}, "", 3
	}
	bin := filepath.Join(t.TempDir(), "servers")
	build := exec.Command("go", "build", "-tags="+tags, "-o", bin, ".")
	build.Dir, build.Env = "servers", append(os.Environ(), "GOWORK=off") // a module that is not in the workspace
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, condition := range conditions {
		for _, load := range loads {
			t.Run(load+", "+condition, func(t *testing.T) {
				judge.AtMost(t, load+", "+condition, "points", bound, func() float64 {
					table := runServer(t, condition, bin, load, fmt.Sprint(length.Seconds()), t.TempDir())
					_, rows, _ := strings.Cut(table, "apart\n")
					first, _, _ := strings.Cut(rows, "\n")
					var points float64
					if _, err := fmt.Sscan(strings.Join(strings.Fields(first)[8:9], ""), &points); err != nil {
						t.Fatalf("%v in\n%s", err, table)
					}
					t.Log(first)
					return points
				})
			})
		}
	}
}

// runServer runs a command under a condition, and returns what it prints.
func runServer(t *testing.T, condition string, command ...string) string {
	cmd := exec.Command(command[0], command[1:]...)
	run := func() ([]byte, error) { return cmd.CombinedOutput() }
	switch condition {
	case "beside 3":
		for range 3 {
			spin := exec.Command("sh", "-c", "while :; do :; done")
			if err := spin.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { spin.Process.Kill(); spin.Wait() }()
		}
	case "half a core":
		run = func() (out []byte, err error) {
			t.Run("", func(t *testing.T) { out, err = testenv.RunLimited(t, 0.5, cmd) }) // a cgroup is removed with its test
			return out, err
		}
	}
	out, err := run()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
