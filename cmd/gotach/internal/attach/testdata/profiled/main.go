// Command profiled has goroutines that wait for what its first argument says, prints an empty line when they have begun, and profiles itself to the file
// of its second one until its input ends.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gotach/profiler"
)

func main() {
	defer profiler.Start(profiler.Output(os.Args[2]), profiler.Budget(50)).Stop()
	var open []*os.File
	switch os.Args[1] {
	case "farends":
		open = farEnds(filepath.Dir(os.Args[2]))
	case "waits":
		waits()
	}
	fmt.Println()
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(open)
}
