package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const list = `# A list (EX)

| id | what | superseded by |
|---|---|---|
| | **Part** | |
| EX-1 | One. | |
| EX-2 | Two, by the way of EX-9. | EX-12 |
| EX-3 | Three. | |
| EX-4 | | |
| EX-5 | Five. | |
| EX-12 | Twelve. | |
`

// project returns a project with the list and other files, given as name and text.
func project(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{"docs/spec/a.md": {Data: []byte(list)}}
	for i := 0; i < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fsys
}

func TestReport(t *testing.T) {
	report, err := Read(project(
		"docs/spec/b.md", "| PC-1 | First. | |\n",
		"docs/spec-exceptions.md", "| EX-3..EX-4 | because |\n",
		// EX-12 is not EX-1, and what is no test proves nothing.
		"a/a_test.go", "// EX-12, EX-2 and EX-3: proven.\n",
		"a/a.go", "// EX-1\n",
		"bin/a_test.go", "// EX-1\n",
		".git/a_test.go", "// EX-1\n",
		"internal/speccheck/a_test.go", "// EX-1\n",
		"a/testdata/story", "# PC-1 to PC-1\n",
	))
	if err != nil {
		t.Fatal(err)
	}
	want := `spec EX proven 1 of 6 superseded 1 excepted 2
spec PC proven 1 of 1 superseded 0 excepted 0
spec KS proven 0 of 0 superseded 0 excepted 0
spec CR proven 0 of 0 superseded 0 excepted 0
spec HR proven 0 of 0 superseded 0 excepted 0
spec HD proven 0 of 0 superseded 0 excepted 0
`
	verbose := `unproven EX-1 One.
unproven EX-5 Five.
only the ends count of the range in a/testdata/story: PC-1 to PC-1
`
	for _, test := range []struct {
		verbose bool
		want    string
	}{{false, want}, {true, want + verbose}} {
		var got strings.Builder
		if err := report.Write(&got, test.verbose); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got.String()); diff != "" {
			t.Errorf("verbose %v (-want +got):\n%s", test.verbose, diff)
		}
	}
}

func TestContradictions(t *testing.T) {
	for _, test := range []struct{ name, file, text, want string }{
		{"twice", "docs/spec/b.md", "| EX-1 | Again. | |", "EX-1: want it once"},
		{"cells", "docs/spec/b.md", "| EX-7 | Seven. |", "EX-7: want it once"},
		{"range of rows", "docs/spec/b.md", "| EX-7..EX-8 | Both. | |", "EX-7: want it once"},
		{"almost a row", "docs/spec/b.md", "|EX-7| Seven. | |", "not a row"},
		{"superseded by nothing", "docs/spec/b.md", "| EX-7 | Seven. | EX-70 |", "no other row"},
		{"superseded by itself", "docs/spec/b.md", "| EX-7 | Seven. | EX-7 |", "no other row"},
		{"superseded by words", "docs/spec/b.md", "| EX-7 | Seven. | see EX-1 |", "is no id"},
		{"exception of no row", "docs/spec-exceptions.md", "| EX-7 | reason |", "EX-7: is no row"},
		{"exception of a superseded row", "docs/spec-exceptions.md", "| EX-2 | reason |", "superseded"},
		{"exception twice", "docs/spec-exceptions.md", "| EX-1 | reason |\n| EX-1 | reason |", "twice"},
		{"exception without reason", "docs/spec-exceptions.md", "| EX-1 | |", "the reason"},
		{"backward range", "docs/spec-exceptions.md", "| EX-3..EX-1 | reason |", "not a range"},
		{"mixed range", "docs/spec-exceptions.md", "| EX-1..PC-3 | reason |", "not a range"},
		{"unknown id in a test", "a/a_test.go", "// EX-130", "a/a_test.go: names EX-130"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read(project(test.file, test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Read returned %v, want an error with %q", err, test.want)
			}
		})
	}
	if _, err := Read(fstest.MapFS{}); err == nil {
		t.Error("an empty folder is no error")
	}
}

// TestOurs reads the project's own lists, so that a contradiction in them fails before make spec does.
func TestOurs(t *testing.T) {
	report, err := Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	last := map[string]int{}
	for id := range report.rows {
		counts[id.Prefix]++
		last[id.Prefix] = max(last[id.Prefix], id.Number)
	}
	for _, prefix := range Prefixes {
		if counts[prefix] == 0 || counts[prefix] != last[prefix] {
			t.Errorf("%s has %d rows and the last is %d; ids are numbered from 1 without gaps", prefix, counts[prefix], last[prefix])
		}
	}
}
