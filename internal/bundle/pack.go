package bundle

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// KeeperName is the program that is not in archives: it is what fetches them.
const KeeperName = "mesopod-keeper"

// The only modes that an archive knows.
const (
	plainMode      = 0o644
	executableMode = 0o755
)

// Create packs the folder with mesopod's programs into the folder out, under the archive's digest, which it returns. An
// archive that lies there already is left as it is.
func Create(dir, out string) (digest Digest, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("folder of archives: %w", err)
	}
	file, err := os.CreateTemp(out, ".bundle-")
	if err != nil {
		return "", fmt.Errorf("bundle archive: %w", err)
	}
	defer func() {
		if removed := os.Remove(file.Name()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	h := sha256.New()
	err = Pack(io.MultiWriter(file, h), dir)
	if err = errors.Join(err, file.Chmod(plainMode), file.Close()); err != nil {
		return "", fmt.Errorf("pack %s: %w", dir, err)
	}
	digest = Sum(h)
	if err := os.Rename(file.Name(), filepath.Join(out, string(digest))); err != nil {
		return "", fmt.Errorf("bundle archive: %w", err)
	}
	return digest, nil
}

// Pack writes the archive of a folder. Names that begin with a dot are left out, and the keeper; anything but folders
// and plain files is errdefs.ErrInvalid, since nothing else can be unpacked safely.
func Pack(w io.Writer, dir string) error {
	// One worker: the same bytes, whatever the machine.
	packer, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packer)
	// WalkDir goes in lexical order.
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == KeeperName {
			return err
		}
		return pack(archive, path, filepath.ToSlash(name), entry)
	})
	return errors.Join(err, archive.Close(), packer.Close())
}

func pack(archive *tar.Writer, path, name string, entry fs.DirEntry) error {
	if entry.IsDir() {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: executableMode, Format: tar.FormatPAX})
	}
	if !entry.Type().IsRegular() {
		return fmt.Errorf("%s is neither a folder nor a plain file: %w", path, errdefs.ErrInvalid)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: plainMode, Size: info.Size(), Format: tar.FormatPAX}
	if info.Mode()&0o111 != 0 {
		header.Mode = executableMode
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.Copy(archive, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
