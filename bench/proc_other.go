//go:build !linux

package main

import (
	"math"
	"time"
)

// Here the table has no figures of CPU time and memory.

func processCPU() time.Duration { return 0 }

func timerThreads() []int { return nil }

func threadCPU(int) time.Duration { return 0 }

func residentBytes() float64 { return math.NaN() }
