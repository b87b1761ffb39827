package mesossim

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// archive is a tar.gz with one file of that name.
func archive(t *testing.T, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: 2, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	_, err := files.Write([]byte("in"))
	for _, failed := range []error{err, files.Close(), zipped.Close()} {
		if failed != nil {
			t.Fatal(failed)
		}
	}
	return out.Bytes()
}

// TestFetch: files and URLs come into the sandbox, archives unpacked, and nothing gets out of it.
func TestFetch(t *testing.T) {
	yes, no := true, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/gone"):
			w.WriteHeader(http.StatusNotFound)
		case strings.HasSuffix(r.URL.Path, "evil.tar.gz"):
			_, _ = w.Write(archive(t, "../evil"))
		case strings.HasSuffix(r.URL.Path, ".tar.gz"):
			_, _ = w.Write(archive(t, "bin/tool"))
		default:
			_, _ = w.Write([]byte("text"))
		}
	}))
	t.Cleanup(server.Close)
	local := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(local, []byte("local"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := func(name string) *string { return &name }
	for _, c := range []struct {
		name, file, want string // file in the sandbox with its content; no file: an error that has the text
		uri              mesos.CommandInfo_URI
	}{
		{"path", "file", "local", mesos.CommandInfo_URI{Value: local}},
		{"file URL", "file", "local", mesos.CommandInfo_URI{Value: "file://" + local}},
		{"http", "x", "text", mesos.CommandInfo_URI{Value: server.URL + "/x"}},
		{"other name", "sub/y", "text", mesos.CommandInfo_URI{Value: server.URL + "/x", OutputFile: out("sub/y")}},
		{"archive", "bin/tool", "in", mesos.CommandInfo_URI{Value: server.URL + "/a.tar.gz"}},
		{"archive that stays one", "", "no such file", mesos.CommandInfo_URI{Value: server.URL + "/a.tar.gz", Extract: &no}},
		{"out by name", "", "outside", mesos.CommandInfo_URI{Value: server.URL + "/x", OutputFile: out("../y")}},
		{"out by an entry", "", "outside", mesos.CommandInfo_URI{Value: server.URL + "/evil.tar.gz"}},
		{"gone", "", "404", mesos.CommandInfo_URI{Value: server.URL + "/gone"}},
		{"hdfs", "", "only http", mesos.CommandInfo_URI{Value: "hdfs://a/b"}},
		{"executable", "x", "text", mesos.CommandInfo_URI{Value: server.URL + "/x", Executable: &yes}},
	} {
		dir := t.TempDir()
		err := fetch(t.Context(), &c.uri, dir)
		if c.file == "" {
			if err == nil {
				_, err = os.Stat(filepath.Join(dir, "bin/tool"))
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want one that has %q", c.name, err, c.want)
			}
			continue
		}
		data, readErr := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil || readErr != nil || string(data) != c.want {
			t.Errorf("%s: %q, %v, %v, want %q", c.name, data, err, readErr, c.want)
		}
		if info, err := os.Stat(filepath.Join(dir, c.file)); err == nil && c.uri.Executable != nil && info.Mode()&0o111 == 0 {
			t.Errorf("%s: mode %v", c.name, info.Mode())
		}
	}
}
