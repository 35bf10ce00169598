package main

import (
	"os"

	"github.com/gotach/profiler/internal/mem"
)

func init() { mem.PlainReads = os.Getenv("GOTACH_PLAIN_READS") == "1" }
