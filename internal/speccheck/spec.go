package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Prefixes are the parts of the specification, in the order of the report.
var Prefixes = []string{"EX", "PC", "KS", "CR", "HR", "HD"}

// ID names a row of the specification, such as EX-12.
type ID struct {
	Prefix string
	Number int
}

// String returns the id as tests write it.
func (i ID) String() string { return fmt.Sprintf("%s-%d", i.Prefix, i.Number) }

func compare(a, b ID) int {
	return cmp.Or(cmp.Compare(slices.Index(Prefixes, a.Prefix), slices.Index(Prefixes, b.Prefix)), cmp.Compare(a.Number, b.Number))
}

var (
	idPattern    = regexp.MustCompile(`\b(EX|PC|KS|CR|HR|HD)-([0-9]+)\b`)
	rangePattern = regexp.MustCompile(`\b(EX|PC|KS|CR|HR|HD)-[0-9]+ (to|-) (EX|PC|KS|CR|HR|HD)-[0-9]+\b`)
	rowPattern   = regexp.MustCompile(`^\| ((?:EX|PC|KS|CR|HR|HD)-[0-9]+(?:\.\.(?:EX|PC|KS|CR|HR|HD)-[0-9]+)?) \|(.*)\|$`)
)

// ids returns the ids that a text names.
func ids(text string) []ID {
	var all []ID
	for _, match := range idPattern.FindAllStringSubmatch(text, -1) {
		number, err := strconv.Atoi(match[2])
		if err != nil {
			continue // a number too long for an int is nobody's id
		}
		all = append(all, ID{match[1], number})
	}
	return all
}

// row is a line of a table: its ids, more than one if it is a range, and the cells after them.
type row struct {
	ids   []ID
	cells []string
}

// rows reads the lines of a Markdown table that begin with an id.
func rows(text string) ([]row, error) {
	var all []row
	var faults []error
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		match := rowPattern.FindStringSubmatch(line)
		if match == nil {
			// A row that is only almost one would go uncounted.
			if first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|"); strings.HasPrefix(line, "|") && idPattern.MatchString(first) {
				faults = append(faults, fmt.Errorf("not a row: %s", line))
			}
			continue
		}
		ends := ids(match[1])
		first, last := ends[0], ends[len(ends)-1]
		if first.Prefix != last.Prefix || len(ends) == 2 && last.Number <= first.Number {
			faults = append(faults, fmt.Errorf("not a range: %s", match[1]))
			continue
		}
		r := row{cells: strings.Split(match[2], "|")}
		for number := first.Number; number <= last.Number; number++ {
			r.ids = append(r.ids, ID{first.Prefix, number})
		}
		for i, cell := range r.cells {
			r.cells[i] = strings.TrimSpace(cell)
		}
		all = append(all, r)
	}
	return all, errors.Join(faults...)
}

// tests reads every test file and all testdata below fsys and tells, by path, what they say. What this program's own
// tests say is about it, and bin and dot folders are no source.
func tests(fsys fs.FS, visit func(name, text string)) error {
	return fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			if name == "bin" || name == "internal/speccheck" || name != "." && strings.HasPrefix(base, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !strings.HasSuffix(base, "_test.go") && !strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err == nil {
			visit(name, string(text))
		}
		return err
	})
}
