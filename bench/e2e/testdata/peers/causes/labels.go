package main

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// labels has the labels of goroutines: package pprof sets all of them at once, and does not say which there are.
var labels = labelTable{of: map[uint64]map[string]string{}}

type labelTable struct {
	mu sync.Mutex
	of map[uint64]map[string]string
}

func (t *labelTable) get() map[string]string {
	id := goroutine()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[id] == nil {
		t.of[id] = map[string]string{}
	}
	return t.of[id]
}

func (t *labelTable) end() {
	id := goroutine()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, id)
}

// goroutine returns the id of the goroutine.
func goroutine() uint64 {
	b := make([]byte, 64)
	fields := strings.Fields(string(b[:runtime.Stack(b, false)]))
	id, err := strconv.ParseUint(fields[1], 10, 64)
	check(err)
	return id
}
