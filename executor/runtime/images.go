package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Import puts the bundle's images into containerd, each archive once for its content: the mark of an imported one lies
// beside containerd's own state, so both are kept or lost together.
func (r *Runtime) Import(ctx context.Context) error {
	archives, err := filepath.Glob(filepath.Join(r.config.BundleDir, "images", "*.tar"))
	if err != nil {
		return fmt.Errorf("bundle images: %w", err)
	}
	if len(archives) == 0 {
		return fmt.Errorf("bundle %s has no images, not even that of the sandbox: %w", r.config.BundleDir, errdefs.ErrNotFound)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, archive := range archives {
		group.Go(func() error { return r.importArchive(ctx, archive) })
	}
	return group.Wait()
}

func (r *Runtime) importArchive(ctx context.Context, archive string) error {
	digest, err := digestOf(archive)
	if err != nil {
		return fmt.Errorf("image archive: %w", err)
	}
	mark := filepath.Join(r.config.markDir(), filepath.Base(archive)+"-"+digest)
	if _, err := os.Stat(mark); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("mark of image archive %s: %w", archive, err)
	}
	command := exec.CommandContext(ctx, filepath.Join(r.config.BundleDir, "ctr"), "--address", r.config.socket(),
		"--namespace", "k8s.io", "images", "import", "--local", archive)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("import image archive %s: %w: %s", archive, err, output)
	}
	glog.Infof("import image archive=%s digest=%s", filepath.Base(archive), digest)
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("mark of image archive %s: %w", archive, err)
	}
	return nil
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
