// A pipeline of three stages that take about as long as each other, and as what comes in: a record each few milliseconds.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"causes/run"

	"github.com/gotach/profiler"
)

type record struct {
	ID   int
	Text string
}

// receive is the first stage.
func receive(ctx context.Context, out chan<- record) {
	defer close(out)
	tick := time.NewTicker(4 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			out <- record{n, fmt.Sprint("reading of sensor ", n, " at ", time.Now())}
		case <-ctx.Done():
			return
		}
	}
}

// sign is the second one.
func sign(in <-chan record, out chan<- []byte) {
	defer close(out)
	for r := range in {
		sum := sha256.Sum256([]byte(r.Text))
		for range 3000 {
			sum = sha256.Sum256(sum[:])
		}
		text, err := json.Marshal(map[string]any{"id": r.ID, "text": r.Text, "sum": sum[:]})
		if err == nil {
			out <- text
		}
	}
}

// pack is the third one.
func pack(in <-chan []byte) (size int) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for text := range in {
		b.Reset()
		w.Reset(&b)
		w.Write(bytes.Repeat(text, 60))
		w.Close()
		size += b.Len()
	}
	return size
}

func main() {
	defer profiler.Start().Stop()
	records, signed := make(chan record, 8), make(chan []byte, 8)
	go receive(run.Context(), records)
	go sign(records, signed)
	fmt.Println(pack(signed) > 0)
}
