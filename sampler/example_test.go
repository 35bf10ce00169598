package sampler_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
	"github.com/gotach/profiler/writer"
)

// The sampler writes samples to a file as they come.
func ExampleStart() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	start := time.Now()
	w, err := writer.Create(filepath.Join(dir, "app.tach"), writer.Options{
		Start:    uint64(start.UnixMicro()),
		Interval: 1000,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := sampler.Start(sampler.Config{Start: start, Source: sampler.Portable}, struct {
		*writer.Writer
		sampler.OnePart
	}{Writer: w})
	if err != nil {
		fmt.Println(err)
		return
	}
	for s.Stats().Samples == 0 { // at any time
		time.Sleep(time.Millisecond) // the program's work
	}
	if err := s.Stop(); err != nil {
		fmt.Println(err)
	}
	// What the file does not have yet. A program adds a description of the session too.
	if err := w.WriteRecords(&tachyon.Records{Goroutines: s.Part().Goroutines}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.Stats().Source, s.Stats().Samples > 0, s.Part().Goroutines[0].ID)
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output: portable true 1
}
