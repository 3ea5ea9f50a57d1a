package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
)

// A journal keeps the log of the servers to show it.
type journal struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

// Write implements io.Writer for the servers' handlers.
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(line)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

func (j *journal) lastLine() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(j.lines.String()), "\n")
	return lines[len(lines)-1]
}

// lastReason returns why the last token was refused.
func (j *journal) lastReason() string {
	var record struct{ Reason string }
	_ = json.Unmarshal([]byte(j.lastLine()), &record) // no record, no reason
	return record.Reason
}
