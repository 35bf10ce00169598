// Command globals has two million slices among its variables. By its length each of them could be the
// runtime's list of goroutines. The program prints how long Start took, in seconds.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/gotach/profiler/sampler"
	"github.com/gotach/profiler/tachyon"
)

var slices [2_000_000][]*int

type sink struct{ sampler.OnePart }

func (sink) Intern(tachyon.Frame) uint32                   { return 0 }
func (sink) WriteBatch(list []tachyon.Sample) (int, error) { return len(list), nil }
func (sink) Forget(uint64, uint32) error                   { return nil }

func (sink) WriteRecords(*tachyon.Records) error { return nil }

func main() {
	list := make([]*int, 5000)
	for i := range list {
		list[i] = new(int)
	}
	for i := range slices {
		slices[i] = list
	}
	begin := time.Now()
	s, err := sampler.Start(sampler.Config{}, sink{})
	took := time.Since(begin)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := s.Stop(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(took.Seconds())
}
