package archtest

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const broken = "broken.example"

// TestBroken holds the rules against a module that breaks each of them: what is found must be exactly what its comments
// "want: RULE" announce.
func TestBroken(t *testing.T) {
	tree, err := Load(os.DirFS("testdata/broken"), broken)
	if err != nil {
		t.Fatal(err)
	}
	rules := withoutExceptions()
	var got []string
	found := map[string]bool{}
	for _, fault := range Check(tree, rules) {
		got = append(got, fmt.Sprintf("%s:%d %s", fault.Path, fault.Line, fault.Rule.Name))
		found[fault.Rule.Name] = true
		if text := fault.String(); !strings.Contains(text, fault.Rule.Why) || fault.Rule.Why == "" {
			t.Errorf("the fault does not tell why: %s", text)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(wanted(t, tree), got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	for _, rule := range rules {
		if !found[rule.Name] && rule.Name != "file-length" {
			t.Errorf("nothing in testdata/broken breaks rule %s", rule.Name)
		}
	}
}

var want = regexp.MustCompile(`want: (\S+)`)

// wanted reads the comments of the tree's files.
func wanted(t *testing.T, tree *Tree) []string {
	t.Helper()
	var all []string
	for _, file := range tree.Files {
		text, err := os.ReadFile(path.Join("testdata/broken", file.Path))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, match := range want.FindAllStringSubmatch(line, -1) {
				all = append(all, fmt.Sprintf("%s:%d %s", file.Path, i+1, match[1]))
			}
		}
	}
	slices.Sort(all)
	return all
}

// withoutExceptions returns the rules as they are for a module that has none.
func withoutExceptions() []*Rule {
	rules := Rules()
	for _, rule := range rules {
		rule.Except = nil
	}
	return rules
}

func TestFileLength(t *testing.T) {
	comments := func(lines int) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("// Package a is long.\npackage a\n" + strings.Repeat("//\n", lines-2))}
	}
	tree, err := Load(fstest.MapFS{"a/short.go": comments(400), "a/again.go": comments(401), "a/limit.go": comments(600), "a/split.go": comments(601)}, broken)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, fault := range Check(tree, withoutExceptions()) {
		got = append(got, fault.Path+" "+fault.Rule.Name)
	}
	if diff := cmp.Diff([]string{"a/split.go file-length"}, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a/again.go: 401 lines", "a/limit.go: 600 lines"}, Long(tree)); diff != "" {
		t.Errorf("long files (-want +got):\n%s", diff)
	}
}

// An exception excuses its file, and one that excuses nothing is told.
func TestExceptions(t *testing.T) {
	tree, err := Load(fstest.MapFS{
		"a/a.go": {Data: []byte("// Package a exits.\npackage a\n\nimport \"os\"\n\nfunc end() { os.Exit(1) }\n")},
		"b/b.go": {Data: []byte("// Package b exits.\npackage b\n\nimport \"os\"\n\nfunc end() { os.Exit(1) }\n")},
	}, broken)
	if err != nil {
		t.Fatal(err)
	}
	rules := withoutExceptions()
	at := slices.IndexFunc(rules, func(r *Rule) bool { return r.Name == "main-exits" })
	rules[at].Except = map[string]string{"a/a.go": "it may", "c/c.go": "it might"}
	var got []string
	for _, fault := range Check(tree, rules) {
		got = append(got, fmt.Sprintf("%s:%d %s", fault.Path, fault.Line, fault.What))
	}
	if diff := cmp.Diff([]string{"b/b.go:6 uses os.Exit", "c/c.go:0 needs its exception no longer (it might); remove it"}, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestLoadTellsWhichFile(t *testing.T) {
	_, err := Load(fstest.MapFS{"a/a.go": {Data: []byte("package")}}, broken)
	if err == nil || !strings.Contains(err.Error(), "a/a.go") {
		t.Errorf("Load returned %v, want an error that names a/a.go", err)
	}
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		name, pattern string
		want          bool
	}{
		{"net", "net", true},
		{"net/http", "net", false},
		{"net", "net/...", true},
		{"net/http", "net/...", true},
		{"network", "net/...", false},
		{"anything/at/all", "...", true},
		{"./executor", "./executor/...", true},
		{"./executors", "./executor/...", false},
	} {
		if got := matches(test.name, []string{"x", test.pattern}); got != test.want {
			t.Errorf("matches(%q, %q) = %v, want %v", test.name, test.pattern, got, test.want)
		}
	}
}
