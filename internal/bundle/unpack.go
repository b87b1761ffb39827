package bundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Bounds of what an archive may hold. A bundle has some 15 files and 300 MB.
const (
	maxEntries  = 10_000
	maxUnpacked = 4 << 30
	// maxWindow bounds the memory of the unpacker.
	maxWindow = 32 << 20
)

// Unpack writes what is in an archive below a folder, which must be there and empty. Only folders and plain files with
// names inside of it are taken; every other archive is errdefs.ErrInvalid, and what it brought until then stays. An
// error of the disk is passed on.
func Unpack(r io.Reader, dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	// One worker and little memory: the keeper stays small.
	unpacker, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	defer unpacker.Close()
	archive := tar.NewReader(io.LimitReader(unpacker, maxUnpacked))
	buffer := make([]byte, 256<<10)
	for entries := range maxEntries {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && entries > 0 {
			return nil
		}
		if err != nil {
			return invalid("its list of files", err)
		}
		if err := unpackEntry(root, archive, header, buffer); err != nil {
			return err
		}
	}
	return invalid(fmt.Sprintf("more than %d files", maxEntries), nil)
}

func unpackEntry(root *os.Root, archive io.Reader, header *tar.Header, buffer []byte) (err error) {
	// A root opens nothing outside of itself, whatever the name; this tells what is wrong.
	name := strings.TrimSuffix(header.Name, "/")
	if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
		return invalid(fmt.Sprintf("name %q", header.Name), nil)
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, executableMode); err != nil {
			return invalidUnlessDisk(name, err)
		}
		return nil
	case tar.TypeReg:
	default:
		return invalid(fmt.Sprintf("%q is neither a folder nor a plain file", header.Name), nil)
	}
	mode := os.FileMode(plainMode)
	if header.Mode&0o111 != 0 {
		mode = executableMode
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return invalidUnlessDisk(name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// Else the mask of this process would decide.
	if err := file.Chmod(mode); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	for {
		n, readErr := archive.Read(buffer)
		if _, err := file.Write(buffer[:n]); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return invalid(name, readErr)
		}
	}
}

// invalidUnlessDisk tells an archive that names a file twice, or a file below a file, from a disk that refuses.
func invalidUnlessDisk(name string, err error) error {
	if errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return invalid(name, err)
	}
	return fmt.Errorf("unpack %s: %w", name, err)
}

func invalid(what string, err error) error {
	if err == nil {
		return fmt.Errorf("bundle archive: %s: %w", what, errdefs.ErrInvalid)
	}
	return fmt.Errorf("bundle archive: %s: %w: %w", what, errdefs.ErrInvalid, err)
}
