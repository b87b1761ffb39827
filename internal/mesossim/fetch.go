package mesossim

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// fetch brings a URI into a sandbox, as the Mesos fetcher does: files of the host, http and https; archives in tar and
// tar.gz are unpacked.
func fetch(ctx context.Context, uri *mesos.CommandInfo_URI, sandbox string) error {
	name := uri.GetOutputFile()
	if name == "" {
		name = filepath.Base(uri.Value)
	}
	target := filepath.Join(sandbox, name)
	if !within(sandbox, target) {
		return fmt.Errorf("%q lies outside the sandbox", name)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	source, err := openURI(ctx, uri.Value)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was read to its end, or is given up
	mode := os.FileMode(0o644)
	if uri.Executable != nil && *uri.Executable {
		mode = 0o755
	}
	// Written beside its place and renamed: an executor never starts from half a file.
	partial, err := os.OpenFile(target+".partial", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(partial, source)
	if err := errors.Join(err, partial.Close()); err != nil {
		return err
	}
	if err := os.Rename(target+".partial", target); err != nil {
		return err
	}
	if mode == 0o644 && (uri.Extract == nil || *uri.Extract) {
		return extract(target, sandbox)
	}
	return nil
}

func openURI(ctx context.Context, value string) (io.ReadCloser, error) {
	if !strings.HasPrefix(value, "http://") && !strings.HasPrefix(value, "https://") {
		if strings.Contains(value, "://") && !strings.HasPrefix(value, "file://") {
			return nil, fmt.Errorf("only http, https and files are fetched, not %s", value)
		}
		return os.Open(strings.TrimPrefix(value, "file://"))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, value, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // nothing of it is of interest
		return nil, fmt.Errorf("%s: %s", value, response.Status)
	}
	return response.Body, nil
}

func within(dir, path string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
}

// extract unpacks an archive; any other file is left alone.
func extract(path, dir string) error {
	zipped := strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz")
	if !zipped && !strings.HasSuffix(path, ".tar") {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	var source io.Reader = file
	if zipped {
		if source, err = gzip.NewReader(file); err != nil {
			return err
		}
	}
	archive := tar.NewReader(source)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpack(archive, header, dir); err != nil {
			return err
		}
	}
}

func unpack(archive io.Reader, header *tar.Header, dir string) error {
	target := filepath.Join(dir, header.Name)
	if !within(dir, target) {
		return fmt.Errorf("archive entry %q lies outside the sandbox", header.Name)
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(target, 0o755)
	case tar.TypeReg:
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		out, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, header.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(out, archive)
		return errors.Join(err, out.Close())
	}
	return nil
}
