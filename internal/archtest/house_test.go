package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHouse holds the rules against this module.
func TestHouse(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	module, found := strings.CutPrefix(first, "module ")
	if !found {
		t.Fatalf("go.mod begins with %q, want the module's path", first)
	}
	tree, err := Load(os.DirFS(root), module)
	if err != nil {
		t.Fatal(err)
	}
	// A walk that stops early would hold every rule.
	for _, dir := range []string{"messages", "scheduler/core", "executor/core", "cmd/mesopod", "internal/archtest"} {
		if !has(tree, dir) {
			t.Errorf("no file of %s was read", dir)
		}
	}
	for _, core := range cores {
		if !has(tree, core) && core != "scheduler/reconcile" {
			t.Errorf("there is no package %s; is the list of cores out of date?", core)
		}
	}
	for _, fault := range Check(tree, Rules()) {
		t.Errorf("%s", fault)
	}
	for _, long := range Long(tree) {
		t.Logf("look again: %s", long)
	}
}

func has(tree *Tree, dir string) bool {
	for _, f := range tree.Files {
		if f.Dir == dir {
			return true
		}
	}
	return false
}
