package local

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells people how far the start is.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time
	mu       sync.Mutex // the control plane tells its phases from its own goroutine
}

// phase tells that a part is ready. Nothing can be done about a terminal that went away.
func (p *progress) phase(name string, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		_, _ = fmt.Fprintf(p.out, " \x1b[32m✓\x1b[0m %-26s %6.2f s\n", name, took.Seconds())
		return
	}
	_, _ = fmt.Fprintf(p.out, "%-26s %6.2f s\n", name, took.Seconds())
}

// say prints a line as it is.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// step does f and tells how long it took.
func (p *progress) step(name string, f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.phase(name, time.Since(began))
	return nil
}
