// A job that compresses blocks with a worker on each core, until the time is over. All cores compute all the time.
package main

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"log"
	"runtime"
	"sync"
	"sync/atomic"

	"causes/run"

	"github.com/gotach/profiler"
)

type job struct {
	input []byte
	next  atomic.Int64
	done  atomic.Int64 // bytes
}

func (j *job) work(ctx context.Context) error {
	const block = 64 << 10
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for ctx.Err() == nil {
		at := int(j.next.Add(1)) * block % (len(j.input) - block)
		out.Reset()
		w.Reset(&out)
		w.Write(j.input[at : at+block])
		if err := w.Close(); err != nil {
			return err
		}
		j.done.Add(int64(out.Len()))
	}
	return nil
}

func main() {
	defer profiler.Start().Stop()
	ctx := run.Context()
	j := &job{input: make([]byte, 8<<20)}
	for i := range j.input {
		j.input[i] = byte(i*i>>7) & 0x3f
	}
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			if err := j.work(ctx); err != nil {
				log.Fatal(err)
			}
		})
	}
	group.Wait()
	fmt.Println(j.done.Load() > 0)
}
