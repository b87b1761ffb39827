package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// write makes a folder with files; a name with a trailing "*" is executable.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name, executable := strings.CutSuffix(name, "*")
		mode := os.FileMode(0o640)
		if executable {
			mode = 0o700
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read is the reverse of write; a mode that is not one of the two says so.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch info.Mode() {
		case executableMode:
			name += "*"
		case plainMode:
		default:
			name += " " + info.Mode().String()
		}
		text, err := os.ReadFile(path)
		files[name] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

var files = map[string]string{"mesopod*": strings.Repeat("program ", 1000), "cni/bridge*": "b", "images/pause.tar": "p", "z": ""}

// The same programs make the same archive, whoever owns them and whenever they were built, and unpack to what they were.
func TestCreate(t *testing.T) {
	first, second := write(t, files), write(t, files)
	for name, text := range map[string]string{KeeperName: "k", ".mesopod.new": "n", ".hidden/x": "x"} {
		path := filepath.Join(second, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(filepath.Join(second, "mesopod"), long, long), os.Chmod(filepath.Join(second, "mesopod"), 0o755),
		os.Chmod(filepath.Join(second, "cni"), 0o700)); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	digest, err := Create(first, out)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Create(second, out); again != digest || err != nil {
		t.Errorf("first %s, then %s, error %v", digest, again, err)
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 1 || entries[0].Name() != string(digest) {
		t.Errorf("out has %v, error %v", entries, err)
	}
	if got, err := DigestOf(filepath.Join(out, string(digest))); got != digest || err != nil {
		t.Errorf("DigestOf says %s, error %v", got, err)
	}
	archive, err := os.Open(filepath.Join(out, string(digest)))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	dir := t.TempDir()
	if err := Unpack(archive, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	if err := os.Symlink("mesopod", filepath.Join(first, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(first, out); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("with a link: %v", err)
	}
	if entries, _ := os.ReadDir(out); len(entries) != 1 {
		t.Errorf("a failure leaves %v", entries)
	}
}

func TestParseDigest(t *testing.T) {
	good := strings.Repeat("0a", 32)
	if digest, err := ParseDigest(good); string(digest) != good || err != nil {
		t.Error(digest, err)
	}
	for _, bad := range []string{"", good[1:], good + "0", strings.ToUpper(good), strings.Replace(good, "a", "/", 1)} {
		if _, err := ParseDigest(bad); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// archiveOf is an archive with any entries; each file holds its name.
func archiveOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	packer, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(packer)
	for _, h := range headers {
		var text []byte
		if h.Typeflag == tar.TypeReg {
			text = []byte(h.Name)
		}
		h.Size = int64(len(text))
		if err := archive.WriteHeader(&h); err != nil {
			return nil // tar itself refuses such a thing
		}
		if _, err := archive.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), packer.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o6777} }

func TestUnpackRefuses(t *testing.T) {
	good := archiveOf(t, file("a"))
	for name, data := range map[string][]byte{
		"above":             archiveOf(t, file("../a")),
		"above in between":  archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, file("d/../../a")),
		"absolute":          archiveOf(t, file("/a")),
		"not clean":         archiveOf(t, file("./a")),
		"itself":            archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "./"}),
		"nothing":           archiveOf(t, file("")),
		"symbolic link":     archiveOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"}, file("l/a")),
		"hard link":         archiveOf(t, file("a"), tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "a"}),
		"device":            archiveOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}),
		"pipe":              archiveOf(t, tar.Header{Typeflag: tar.TypeFifo, Name: "p"}),
		"twice":             archiveOf(t, file("a"), file("a")),
		"below a file":      archiveOf(t, file("a"), file("a/b")),
		"folder not there":  archiveOf(t, file("d/a")),
		"cut":               good[:len(good)-8],
		"empty":             {},
		"not compressed":    []byte("a tar begins with a name"),
		"garbage after all": append(append([]byte{}, good[:len(good)/2]...), bytes.Repeat([]byte{0xff}, 100)...),
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(bytes.NewReader(data), dir); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
		if entries, _ := os.ReadDir(parent); len(entries) != 1 {
			t.Errorf("%s: outside there is %v", name, entries)
		}
	}
}

// No mode but the two, whatever the archive says: no set-uid, nothing that others may write.
func TestUnpackModes(t *testing.T) {
	dir := t.TempDir()
	if err := Unpack(bytes.NewReader(archiveOf(t, file("a"), tar.Header{Typeflag: tar.TypeReg, Name: "b", Mode: 0o4666})), dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a*": "a", "b": "b"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Whatever the entries are called and are, nothing appears outside of the folder, and in it nothing but folders and plain
// files.
func FuzzUnpack(f *testing.F) {
	f.Add("a", "b", byte(tar.TypeReg), byte(tar.TypeReg), "")
	f.Add("l", "l/a", byte(tar.TypeSymlink), byte(tar.TypeReg), "..")
	f.Add("d/", "d/../../x", byte(tar.TypeDir), byte(tar.TypeReg), "")
	f.Add("a", "l", byte(tar.TypeReg), byte(tar.TypeLink), "../sentinel")
	f.Fuzz(func(t *testing.T, first, second string, firstType, secondType byte, link string) {
		data := archiveOf(t, tar.Header{Typeflag: firstType, Name: first, Linkname: link, Mode: 0o777}, tar.Header{Typeflag: secondType, Name: second, Linkname: link, Mode: 0o777})
		if data == nil {
			return
		}
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = Unpack(bytes.NewReader(data), dir) // most are refused
		entries, err := os.ReadDir(parent)
		if err != nil || len(entries) != 1 {
			t.Errorf("outside there is %v, error %v", entries, err)
		}
		if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && !entry.Type().IsRegular() {
				t.Errorf("%s is %s", path, entry.Type())
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}
