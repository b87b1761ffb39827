package resolvconf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestServers(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "[]",
		"nameserver 127.0.0.53": "[]",
		"nameserver ::1\n":      "[]",
		"search a b\n# nameserver 10.0.0.9\nnameserver 10.0.0.1\nnameserver\tfd00::1 \nnameserver x\n": "[10.0.0.1 fd00::1]",
	} {
		if got := fmt.Sprint(Servers(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// The first file with servers for pods wins, else the first that is there.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub, real, missing := write("stub", "nameserver 127.0.0.53\n"), write("real", "nameserver 10.0.0.1\n"), filepath.Join(dir, "missing")
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{stub, real}, real}, {[]string{real, stub}, real}, {[]string{stub, missing}, stub}, {[]string{missing, stub}, stub}, {[]string{missing}, ""},
	} {
		if got := file(c.paths...); got != c.want {
			t.Errorf("%v: %q, want %q", c.paths, got, c.want)
		}
	}
}
