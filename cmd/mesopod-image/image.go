package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageSpec is all an image is made from.
type imageSpec struct {
	tag    name.Tag
	config v1.Config
	files  []imageFile
}

// imageFile is one file, folder or link of the image; which of them, the type bits of mode say.
type imageFile struct {
	path    string // absolute
	mode    fs.FileMode
	content []byte // of a regular file
	target  string // of a symbolic link
}

// newImage puts all files into one layer. The layer is not compressed: its digest then depends on the files alone and
// not on a compressor's version, and containerd unpacks it the faster.
func newImage(spec imageSpec) (v1.Image, error) {
	files, err := arrange(spec.files)
	if err != nil {
		return nil, err
	}
	layer, err := tarFiles(files)
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config:       spec.config,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   static.NewLayer(layer, types.DockerUncompressedLayer),
		History: v1.History{CreatedBy: "mesopod-image"},
	})
}

// arrange checks the files against each other, adds the folders that lead to them, and sorts by path, which puts each
// folder before what is in it. It tells every fault at once.
func arrange(files []imageFile) ([]imageFile, error) {
	var faults []error
	byPath := map[string]imageFile{}
	for _, file := range files {
		clean := path.Clean(file.path)
		if !path.IsAbs(file.path) || slices.Contains(strings.Split(file.path, "/"), "..") {
			faults = append(faults, fmt.Errorf("path %q in the image: want an absolute path without '..'", file.path))
			continue
		}
		if clean == "/" {
			if file.mode.IsDir() {
				continue // the root folder is always there
			}
			faults = append(faults, fmt.Errorf("path %q in the image: a file needs a name", file.path))
			continue
		}
		earlier, double := byPath[clean]
		if double && !(file.mode.IsDir() && earlier.mode.IsDir()) {
			faults = append(faults, fmt.Errorf("path %q in the image is given twice", clean))
			continue
		}
		file.path = clean
		byPath[clean] = file
	}
	for _, clean := range slices.Sorted(maps.Keys(byPath)) {
		for parent := path.Dir(clean); parent != "/"; parent = path.Dir(parent) {
			existing, found := byPath[parent]
			if !found {
				byPath[parent] = imageFile{path: parent, mode: fs.ModeDir | 0o755}
			} else if !existing.mode.IsDir() {
				faults = append(faults, fmt.Errorf("path %q in the image: %q is not a folder", clean, parent))
				break
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(byPath), func(a, b imageFile) int { return strings.Compare(a.path, b.path) })
	return sorted, errors.Join(faults...)
}

func tarFiles(files []imageFile) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range files {
		header := &tar.Header{
			Name:    strings.TrimPrefix(file.path, "/"),
			Mode:    tarMode(file.mode),
			ModTime: time.Unix(0, 0),
			Format:  tar.FormatPAX,
		}
		switch {
		case file.mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		case file.mode&fs.ModeSymlink != 0:
			header.Typeflag, header.Linkname = tar.TypeSymlink, file.target
		default:
			header.Typeflag, header.Size = tar.TypeReg, int64(len(file.content))
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write header of %s: %w", file.path, err)
		}
		if _, err := writer.Write(file.content); err != nil {
			return nil, fmt.Errorf("write %s: %w", file.path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("close layer: %w", err)
	}
	return buffer.Bytes(), nil
}

func tarMode(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if mode&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}
