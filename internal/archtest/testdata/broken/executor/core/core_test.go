package core

import (
	"context"
	"os"
	"testing"
	"time"
)

// Tests may use the clock, but not sleep, and leave exits to TestMain.
func TestMain(m *testing.M) { os.Exit(m.Run()) }

func TestCore(t *testing.T) {
	_, _ = context.Background(), time.Now()
	go time.Sleep(time.Second) // want: no-sleep
	os.Exit(1)                 // want: main-exits
}
