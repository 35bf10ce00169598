package testenv

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// A Log keeps the lines logged through its Logger. Its zero value is empty.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Logger returns a logger that writes to l, without times.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Lines returns the messages with their quotes unescaped.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.ReplaceAll(strings.TrimSuffix(l.b.String(), "\n"), `\"`, `"`)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
