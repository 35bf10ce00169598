package main

import (
	"os"
	_ "unsafe" // for go:linkname
)

// plainReads is set as the tests of package native set it, under an emulator.
//
//go:linkname plainReads github.com/gotach/profiler/sampler/internal/native.plainReads
var plainReads bool

func init() { plainReads = os.Getenv("GOTACH_PLAIN_READS") == "1" }
