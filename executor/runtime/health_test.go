package runtime

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The test program is containerd when it is called so.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "containerd" && len(os.Args) == 3 {
		os.Exit(playContainerd(filepath.Dir(os.Args[2])))
	}
	os.Exit(m.Run())
}

// playContainerd answers on the socket until it is killed.
func playContainerd(stateDir string) int {
	socket := filepath.Join(stateDir, "containerd.sock")
	_ = os.Remove(socket) // of the one before
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return 1
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, answering{})
	if server.Serve(listener) != nil {
		return 1
	}
	return 0
}

type answering struct {
	cri.UnimplementedRuntimeServiceServer
}

func (answering) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{RuntimeVersion: "played"}, nil
}

func (answering) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{}, nil
}

// A containerd that is killed is started again, one that hangs is killed first; one that answers is left alone.
func TestHung(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "mesopod") // a short path: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := bundle(t)
	if err := os.Remove(filepath.Join(programs, "containerd")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(programs, "containerd")); err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{BundleDir: programs, StateDir: dir, Container: "c1", LogFile: filepath.Join(dir, "log"), Bridge: "mpodtest9", PodCIDR: "10.1.2.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	r.patience = patience{pause: 20 * time.Millisecond, deadline: 200 * time.Millisecond, boot: 10 * time.Second, silence: time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if left := r.config.containerds(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	<-r.Ready()
	first := answers(t, r, 0)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		before := time.Now()
		if err := syscall.Kill(first, signal); err != nil {
			t.Fatal(err)
		}
		next := answers(t, r, first)
		if slices.Contains(r.config.containerds(), first) {
			t.Errorf("%s: the old one still is there", signal)
		}
		if took := time.Since(before); signal == syscall.SIGSTOP && took < r.patience.silence/2 {
			t.Errorf("%s: given up after %s", signal, took)
		}
		first = next
	}
}

// answers waits for another containerd than one, and returns its pid.
func answers(t *testing.T, r *Runtime, but int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		pids := r.config.containerds()
		if _, err := r.ask(ctx); err == nil && len(pids) == 1 && pids[0] != but {
			return pids[0]
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no other containerd answers; there are %v", pids)
		case <-ticker.C:
		}
	}
}
