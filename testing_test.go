package profiler

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// logBuffer keeps what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// lines returns the messages with their quoting undone.
func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.ReplaceAll(strings.TrimSuffix(l.b.String(), "\n"), `\"`, `"`)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
