package executor

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// EX-124: an executor that panics, in whatever goroutine, ends by a signal, so that the keeper takes it for the crash it is.
func TestPanicIsACrash(t *testing.T) {
	const child = "MESOPOD_TEST_PANIC"
	if os.Getenv(child) != "" {
		// No core file where the test runs.
		if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
			t.Fatal(err)
		}
		crashBySignal()
		go panic("in a goroutine of the kubelet")
		select {}
	}
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicIsACrash$")
	test.Env = append(os.Environ(), child+"=1")
	output, err := test.CombinedOutput()
	status, ok := test.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGABRT {
		t.Errorf("it ended with %v, not by a signal", err)
	}
	if !bytes.Contains(output, []byte("panic: in a goroutine of the kubelet")) {
		t.Errorf("the panic is not in its output:\n%s", output)
	}
}
