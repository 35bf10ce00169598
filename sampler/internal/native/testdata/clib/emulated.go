package main

import (
	"os"
	_ "unsafe" // for go:linkname
)

// plainReads is that of package native, whose tests set it too under an emulator.
//
//go:linkname plainReads github.com/gotach/profiler/sampler/internal/native.plainReads
var plainReads bool

func init() { plainReads = os.Getenv("GOTACH_PLAIN_READS") == "1" }
