package statedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Claim decides whether the executor of a Mesos container may have a folder that its agent names for all frameworks. Only one
// may: what it finds there it takes for its own, and clears away. second tells that the executor of another framework has it,
// and that ours is to live in the folder own beside it.
//
// A container keeps its place whatever becomes of the others. lives tells whether an executor of a framework runs on this
// agent.
func Claim(ctx context.Context, path, own, framework, container string, lives func(framework string) (bool, error)) (second bool, err error) {
	dir, err := Lock(ctx, path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, dir.Unlock()) }()
	here, err := dir.Owner()
	if err != nil {
		return false, err
	}
	if there, err := (&Dir{path: own}).Owner(); err != nil || there == container {
		return err == nil, err
	}
	marker := filepath.Join(path, "framework")
	text, err := os.ReadFile(marker)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("framework of state folder: %w", err)
	}
	if first := strings.TrimSpace(string(text)); here != container && first != "" && first != framework {
		if alive, err := lives(first); err != nil || alive {
			return err == nil, err
		}
	}
	if err := os.WriteFile(marker, []byte(framework+"\n"), 0o600); err != nil {
		return false, fmt.Errorf("framework of state folder: %w", err)
	}
	return false, nil
}
