//go:build !linux

package main

import (
	"errors"
	"math"
	"time"
)

// Here the table has no figures of CPU time and memory.

func processCPU() time.Duration { return 0 }

func timerThreads() []int { return nil }

func threadCPU(int) time.Duration { return 0 }

func residentBytes() float64 { return math.NaN() }

func startTimer(int, float64) (session, error) {
	return nil, errors.New("a timer that wakes a thread needs Linux")
}
