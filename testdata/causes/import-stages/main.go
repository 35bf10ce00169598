// Readings of meters are imported in stages: they are read, then checked, then written to a journal, which is synced
// after every fifth one.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type readings struct {
	raw, checked chan string
}

func (r *readings) read(ctx context.Context, meter int) {
	for n := 0; ctx.Err() == nil; n++ {
		r.raw <- fmt.Sprintf("%d %d %s", meter, n, strings.Repeat("7", n%100)) // planted
	}
}

func (r *readings) check() {
	for line := range r.raw {
		if strings.Contains(line, " ") {
			r.checked <- line
		}
	}
}

func (r *readings) write(journal *os.File) error {
	for n := 1; ; n++ {
		if _, err := journal.WriteString(<-r.checked + "\n"); err != nil {
			return err
		}
		if n%5 == 0 {
			if err := journal.Sync(); err != nil { // planted
				return err
			}
			time.Sleep(2 * time.Millisecond) // the disk of the machine is fast
		}
	}
}

func main() {
	defer profiler.Start().Stop()
	journal, err := os.CreateTemp("", "readings")
	if err != nil {
		panic(err)
	}
	defer os.Remove(journal.Name())
	r := &readings{make(chan string, 10), make(chan string, 10)}
	ctx := run.Context()
	for meter := range 3 {
		go r.read(ctx, meter)
	}
	go r.check()
	go r.write(journal)
	<-ctx.Done()
}
