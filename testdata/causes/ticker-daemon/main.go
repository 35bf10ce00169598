// A daemon that reads some figures each 200 ms, keeps them, and writes a line to a file each second.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime/metrics"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type daemon struct {
	out     *bufio.Writer
	samples []metrics.Sample
	history [][]float64
}

func (d *daemon) read() {
	metrics.Read(d.samples)
	row := make([]float64, len(d.samples))
	for i, s := range d.samples {
		if s.Value.Kind() == metrics.KindUint64 {
			row[i] = float64(s.Value.Uint64())
		}
	}
	d.history = append(d.history, row)
}

func (d *daemon) report() error {
	fmt.Fprintln(d.out, time.Now(), d.history[len(d.history)-1])
	return d.out.Flush()
}

func main() {
	defer profiler.Start().Stop()
	f, err := os.CreateTemp("", "daemon")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	d := &daemon{out: bufio.NewWriter(f)}
	for _, x := range metrics.All() {
		d.samples = append(d.samples, metrics.Sample{Name: x.Name})
	}
	ctx := run.Context()
	often, seldom := time.NewTicker(200*time.Millisecond), time.NewTicker(time.Second)
	for {
		select {
		case <-often.C:
			d.read()
		case <-seldom.C:
			if err := d.report(); err != nil {
				log.Print(err)
			}
		case <-ctx.Done():
			return
		}
	}
}
