package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gotach/profiler/cmd/gotach/internal/attach"
	"github.com/gotach/profiler/cmd/gotach/internal/top"
)

// mostWatched bounds the temporary file of a program that is watched from outside.
const mostWatched = 24 * time.Hour

// watchProcess watches the file that a process writes. If it writes none, it is recorded from
// outside to a temporary file for as long as it is watched.
func watchProcess(ctx context.Context, pid int) (*top.Watch, error) {
	w, none := top.Process(pid)
	if !errors.Is(none, top.ErrNoProfile) {
		return w, none
	}
	p, err := attach.Open(ctx, pid)
	if err != nil {
		return nil, fmt.Errorf("%w\nIt cannot be watched from outside either: %w", none, err)
	}
	dir, err := os.MkdirTemp("", "gotach-top")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, p.Name+".tach")
	ctx, cancel := context.WithTimeout(ctx, mostWatched)
	ended := make(chan error, 1)
	go func() {
		_, err := p.Record(ctx, path, attach.Options{Interval: usualInterval, Budget: usualBudget})
		ended <- err
	}()
	stop := func() error {
		cancel()
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	for !exists(path) {
		select {
		case err := <-ended:
			if ended <- err; err != nil {
				return nil, stop()
			}
		case <-time.After(time.Millisecond):
		}
	}
	if w, err = top.Recording(p.Name+", from outside", path, stop); err != nil {
		return nil, errors.Join(err, stop())
	}
	return w, nil
}
