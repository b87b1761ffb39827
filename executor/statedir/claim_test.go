package statedir

import (
	"errors"
	"path/filepath"
	"testing"
)

// The first framework has the agent's folder as long as an executor of it lives; a container that has begun in a folder stays
// there.
func TestClaim(t *testing.T) {
	base := filepath.Join(t.TempDir(), "a1")
	alive := map[string]bool{}
	claim := func(framework, container string, want bool) {
		t.Helper()
		own := base + "-" + framework
		second, err := Claim(t.Context(), base, own, framework, container, func(f string) (bool, error) { return alive[f], nil })
		if err != nil || second != want {
			t.Errorf("container %s of %s: second %t, want %t (%v)", container, framework, second, want, err)
		}
		path := base
		if second {
			path = own
		}
		d := lock(t, path)
		defer d.Unlock()
		if err := d.SetOwner(container); err != nil {
			t.Fatal(err)
		}
	}
	claim("f1", "c1", false)
	claim("f2", "c2", false) // nobody of f1 lives
	alive["f2"] = true
	claim("f1", "c3", true)
	claim("f2", "c2", false)
	alive["f2"] = false
	claim("f1", "c3", true) // where its pods are
	claim("f1", "c4", false)
	alive["f1"] = true
	claim("f2", "c5", true)

	broken := errors.New("no processes to be seen")
	if _, err := Claim(t.Context(), base, base+"-f3", "f3", "c6", func(string) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("nobody knows who lives: %v", err)
	}
}
