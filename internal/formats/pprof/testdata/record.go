// Command record wrote cpu.pb.gz, of runtime/pprof, and fgprof.pb.gz: a program that works for a
// while with the label job=spin, and sleeps. From the module's folder:
//
//	go run internal/formats/pprof/testdata/record.go
package main

import (
	"context"
	"log"
	"os"
	"runtime/pprof"
	"time"

	"github.com/felixge/fgprof"
)

const dir = "internal/formats/pprof/testdata/"

func main() {
	f, err := os.Create(dir + "cpu.pb.gz")
	if err != nil {
		log.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		log.Fatal(err)
	}
	pprof.Do(context.Background(), pprof.Labels("job", "spin"), func(context.Context) { spin(300 * time.Millisecond) })
	spin(100 * time.Millisecond)
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	if f, err = os.Create(dir + "fgprof.pb.gz"); err != nil {
		log.Fatal(err)
	}
	stop := fgprof.Start(f, fgprof.FormatPprof)
	time.Sleep(500 * time.Millisecond)
	if err := stop(); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
}

var spun int

//go:noinline
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range 100_000 {
			spun += i * spun
		}
	}
}
