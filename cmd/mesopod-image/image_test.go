package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// sources lays out a folder as a checkout would, with the given modes whatever the umask is.
func sources(t *testing.T, folderMode, fileMode os.FileMode) string {
	t.Helper()
	folder := t.TempDir()
	for _, file := range []struct {
		name, content string
		mode          os.FileMode
	}{
		{"run", "#!/bin/sh\n", fileMode | 0o100},
		{"tree/b", "b", fileMode},
		{"tree/a/c", "c", fileMode},
	} {
		path := filepath.Join(folder, file.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, file.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(folder, "tree"), folderMode); err != nil {
		t.Fatal(err)
	}
	return folder
}

// build runs the command as main does and returns what it printed.
func build(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := newCommand()
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(append([]string{"build"}, args...))
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

// load reads an archive back as a container runtime does: by its manifest.
func load(t *testing.T, path string) v1.Image {
	t.Helper()
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return image
}

// tarEntries lists a tar stream: one line an entry, content of regular files included.
func tarEntries(t *testing.T, reader io.Reader) []tar.Header {
	t.Helper()
	var entries []tar.Header
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, *header)
	}
}

func layerEntries(t *testing.T, image v1.Image) []tar.Header {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: got %d, %v; want one", len(layers), err)
	}
	reader, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	return tarEntries(t, reader)
}

// The same files give the same bytes: whatever the umask at checkout, the time, or the order of the flags.
func TestBuildIsDeterministic(t *testing.T) {
	var archives [2][]byte
	var lines [2]string
	for i, modes := range [][2]os.FileMode{{0o755, 0o644}, {0o700, 0o600}} {
		folder := sources(t, modes[0], modes[1])
		adds := []string{"--add", filepath.Join(folder, "run") + ":/bin/run", "--add", filepath.Join(folder, "tree") + ":/srv"}
		if i == 1 {
			adds = []string{adds[2], adds[3], adds[0], adds[1]}
		}
		output := filepath.Join(t.TempDir(), "image.tar")
		printed, err := build(t, append(adds, "--output", output, "--tag", "mesopod.local/probe:1", "--symlink", "/bin/sh:run")...)
		if err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(output); err != nil {
			t.Fatal(err)
		}
		lines[i] = strings.TrimSuffix(printed, " "+output+"\n")
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Errorf("archives differ; printed %q and %q", lines[0], lines[1])
	}
	if lines[0] != lines[1] || !strings.HasPrefix(lines[0], "mesopod.local/probe:1 sha256:") {
		t.Errorf("printed %q and %q; want one line with name and image id", lines[0], lines[1])
	}
}

func TestBuildLayerHoldsFilesFoldersAndLinks(t *testing.T) {
	folder := sources(t, 0o700, 0o600)
	output := filepath.Join(t.TempDir(), "image.tar")
	_, err := build(t, "--output", output, "--tag", "mesopod.local/probe:1",
		"--add", filepath.Join(folder, "run")+":/bin/run:4711", "--add", filepath.Join(folder, "tree")+":/srv",
		"--symlink", "/bin/sh:run", "--dir", "/tmp:1777", "--dir", "/var/run")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, header := range layerEntries(t, load(t, output)) {
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 {
			t.Errorf("%s: owner %d:%d, time %s; want root and 1970", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		line := string(header.Typeflag) + " " + header.Name
		got = append(got, strings.TrimSpace(strings.Join([]string{line, formatMode(header.Mode), header.Linkname}, " ")))
	}
	want := []string{
		"5 bin/ 755", "0 bin/run 4711", "2 bin/sh 777 run",
		"5 srv/ 755", "5 srv/a/ 755", "0 srv/a/c 644", "0 srv/b 644",
		"5 tmp/ 1777", "5 var/ 755", "5 var/run/ 755",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

func formatMode(mode int64) string {
	var digits []byte
	for ; mode > 0; mode >>= 3 {
		digits = append([]byte{byte('0' + mode&7)}, digits...)
	}
	return string(digits)
}

func TestBuildConfig(t *testing.T) {
	folder := sources(t, 0o755, 0o644)
	output := filepath.Join(t.TempDir(), "image.tar")
	_, err := build(t, "--output", output, "--tag", "mesopod.local/probe:1", "--add", filepath.Join(folder, "run")+":/run",
		"--entrypoint", "/run", "--entrypoint", "-a,b", "--cmd", "one", "--cmd", "two words",
		"--env", "PATH=/bin", "--env", "A=b=c", "--user", "1000:1000", "--workdir", "/tmp")
	if err != nil {
		t.Fatal(err)
	}
	config, err := load(t, output).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{"/run", "-a,b"}, Cmd: []string{"one", "two words"},
		Env: []string{"PATH=/bin", "A=b=c"}, User: "1000:1000", WorkingDir: "/tmp",
	}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if config.OS != "linux" || config.Architecture == "" || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("os %q, architecture %q, %d layers in the configuration", config.OS, config.Architecture, len(config.RootFS.DiffIDs))
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(output) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mesopod.local/probe:1"}, manifest[0].RepoTags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

func TestBuildTellsEveryFaultAndWritesNothing(t *testing.T) {
	folder := sources(t, 0o755, 0o644)
	if err := os.Symlink("b", filepath.Join(folder, "tree", "link")); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(folder, "run")
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"bad tag and bad env together", []string{"--tag", "busybox", "--env", "PATH"}, []string{`--tag "busybox"`, `--env "PATH": want NAME=VALUE`}},
		{"tag missing", []string{"--tag", ""}, []string{"--tag"}},
		{"source missing", []string{"--add", "/nowhere/at/all:/x"}, []string{`--add "/nowhere/at/all:/x"`, "no such file"}},
		{"no destination", []string{"--add", run}, []string{"want SRC:DEST[:MODE]"}},
		{"mode not octal", []string{"--add", run + ":/x:0888"}, []string{`mode "0888": want an octal number`}},
		{"mode too large", []string{"--dir", "/x:17777"}, []string{`mode "17777"`}},
		{"relative destination", []string{"--add", run + ":x"}, []string{`path "x" in the image: want an absolute path`}},
		{"destination above the root", []string{"--symlink", "/../x:run"}, []string{"without '..'"}},
		{"file in place of the root", []string{"--add", run + ":/"}, []string{"a file needs a name"}},
		{"link without target", []string{"--symlink", "/x"}, []string{"want PATH:TARGET"}},
		{"link among the sources", []string{"--add", filepath.Join(folder, "tree") + ":/srv"}, []string{"link is neither a file nor a folder"}},
		{"twice the same path", []string{"--add", run + ":/x", "--symlink", "/x:y"}, []string{`path "/x" in the image is given twice`}},
		{"file as a folder", []string{"--add", run + ":/x", "--add", run + ":/x/y"}, []string{`"/x" is not a folder`}},
		{"relative workdir", []string{"--workdir", "tmp"}, []string{`--workdir "tmp"`}},
		{"surplus argument", []string{"surplus"}, []string{"surplus"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			empty := t.TempDir()
			_, err := build(t, append([]string{"--output", filepath.Join(empty, "x.tar"), "--tag", "mesopod.local/probe:1"}, test.args...)...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q\nwants %q", err, want)
				}
			}
			if left, _ := os.ReadDir(empty); len(left) != 0 {
				t.Errorf("left %v behind", left)
			}
		})
	}
}

func TestBuildKeepsOldArchiveOnFailure(t *testing.T) {
	folder := t.TempDir()
	output := filepath.Join(folder, "taken")
	if err := os.MkdirAll(filepath.Join(output, "by a folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := build(t, "--output", output, "--tag", "mesopod.local/probe:1", "--dir", "/tmp"); err == nil {
		t.Fatal("no error though the output cannot be replaced")
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("folder holds %v, %v; want only what was there", left, err)
	}
}
