//go:build !linux

package main

import (
	"errors"
	"math"
	"time"
)

// On this system the table has no CPU times and no memory sizes.

func processCPU() time.Duration { return 0 }

func allCPU() time.Duration { return 0 }

func ownThreadCPU() time.Duration { return 0 }

func timerThreads() []int { return nil }

func threadCPU(int) time.Duration { return 0 }

func residentBytes() float64 { return math.NaN() }

func startTimer(int, float64) (session, error) {
	return nil, errors.New("\"timer alone\" works only on Linux")
}
