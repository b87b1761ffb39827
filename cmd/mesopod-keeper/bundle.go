package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/cmd/mesopod-keeper/cache"
	"github.com/mesopod/mesopod/internal/bundle"
)

// The executor learns where its programs are by bundleDirVariable, and which bundle they are by bundleVariable, which is
// empty for a folder of the operator's. Into the file that orderFileVariable names it writes an order for another bundle,
// before it sends SIGHUP.
const (
	bundleDirVariable = "MESOPOD_BUNDLE_DIR"
	bundleVariable    = "MESOPOD_BUNDLE"
	orderFileVariable = "MESOPOD_BUNDLE_ORDER"
	orderFileName     = ".mesopod-bundle"
)

// order asks for a bundle.
type order struct {
	SHA256  string   `json:"sha256"`
	Sources []string `json:"sources"`
}

// programs finds the programs to run.
type programs struct {
	options
	orderFile string
	// held are all bundles that ever ran here: the shims of their pods go on using them.
	held []*cache.Held
}

// folder is where programs lie, and which bundle they are.
type folder struct{ dir, digest string }

func (f folder) program() string { return filepath.Join(f.dir, "mesopod") }

func (f folder) environment() []string {
	return []string{bundleDirVariable + "=" + f.dir, bundleVariable + "=" + f.digest}
}

// String is for people.
func (f folder) String() string {
	if f.digest == "" {
		return f.dir
	}
	return "bundle " + bundle.Digest(f.digest).Short()
}

// first is what to run at the start: the folder that the flags name, or a bundle. A signal that comes while that is
// brought ends the wait, and is returned.
func (p *programs) first() (folder, syscall.Signal, error) {
	if p.digest == "" {
		return folder{dir: p.bundleDir}, 0, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)
	got := make(chan syscall.Signal, 1)
	go func() {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			got <- number
			cancel()
		case <-ctx.Done():
		}
	}()
	f, err := p.bring(ctx, order{SHA256: p.digest, Sources: p.sources})
	select {
	case number := <-got:
		return folder{}, number, nil
	default:
		return f, 0, err
	}
}

// ordered brings the bundle that the order file names.
func (p *programs) ordered() (folder, error) {
	text, err := os.ReadFile(p.orderFile)
	if err != nil {
		return folder{}, fmt.Errorf("order for a bundle: %w", err)
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return folder{}, fmt.Errorf("order for a bundle %s: %w", p.orderFile, err)
	}
	for _, base := range o.Sources {
		if err := cache.CheckSource(base); err != nil {
			return folder{}, fmt.Errorf("order for a bundle %s: %w", p.orderFile, err)
		}
	}
	return p.bring(context.Background(), o)
}

// bring gets a bundle into the host's cache and holds it there for as long as we live.
func (p *programs) bring(ctx context.Context, o order) (folder, error) {
	digest, err := bundle.ParseDigest(o.SHA256)
	if err != nil {
		return folder{}, err
	}
	held, err := cache.New(p.cacheDir, p.cacheLimit, os.Stderr).Acquire(ctx, digest, o.Sources)
	if err != nil {
		return folder{}, err
	}
	p.held = append(p.held, held)
	// What fetching took is not needed again.
	debug.FreeOSMemory()
	return folder{dir: held.Dir, digest: string(digest)}, nil
}
