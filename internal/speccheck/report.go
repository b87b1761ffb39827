package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Report is what is known of each row of the specification.
type Report struct {
	rows       map[ID]string // and what it says
	superseded map[ID]ID
	excepted   map[ID]string // and why
	proven     map[ID]string // and a file that proves it
	ranges     []string
}

// Read reads docs/spec, docs/spec-exceptions.md and all tests below fsys. Its error joins all contradictions.
func Read(fsys fs.FS) (*Report, error) {
	r := &Report{rows: map[ID]string{}, superseded: map[ID]ID{}, excepted: map[ID]string{}, proven: map[ID]string{}}
	err := errors.Join(r.readRows(fsys), r.readExceptions(fsys), r.readTests(fsys))
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Report) readRows(fsys fs.FS) error {
	names, err := fs.Glob(fsys, "docs/spec/*.md")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("no docs/spec/*.md here; run it at the root of the project")
	}
	var faults []error
	for _, name := range names {
		faults = append(faults, r.readList(fsys, name))
	}
	for id, by := range r.superseded {
		if _, known := r.rows[by]; !known || by == id {
			faults = append(faults, fmt.Errorf("%s is superseded by %s, which is no other row", id, by))
		}
	}
	return errors.Join(faults...)
}

// readList reads one list: id, what, superseded by.
func (r *Report) readList(fsys fs.FS, name string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	list, err := rows(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var faults []error
	for _, row := range list {
		id := row.ids[0]
		_, twice := r.rows[id]
		if twice || len(row.ids) != 1 || len(row.cells) != 2 {
			faults = append(faults, fmt.Errorf("%s: %s: want it once, alone, with what it says and by what it is superseded", name, id))
			continue
		}
		r.rows[id] = row.cells[0]
		switch by := ids(row.cells[1]); {
		case len(by) == 1 && by[0].String() == row.cells[1]:
			r.superseded[id] = by[0]
		case row.cells[1] != "":
			faults = append(faults, fmt.Errorf("%s: %s: superseded by %q is no id", name, id, row.cells[1]))
		}
	}
	return errors.Join(faults...)
}

func (r *Report) readExceptions(fsys fs.FS) error {
	const name = "docs/spec-exceptions.md"
	text, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := rows(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var faults []error
	for _, row := range list {
		for _, id := range row.ids {
			_, known := r.rows[id]
			_, superseded := r.superseded[id]
			_, twice := r.excepted[id]
			switch {
			case len(row.cells) != 1 || row.cells[0] == "":
				faults = append(faults, fmt.Errorf("%s: %s: want one cell with the reason", name, id))
			case !known || superseded || twice:
				faults = append(faults, fmt.Errorf("%s: %s: is no row, or superseded, or excepted twice", name, id))
			}
			r.excepted[id] = strings.Join(row.cells, " ")
		}
	}
	return errors.Join(faults...)
}

func (r *Report) readTests(fsys fs.FS) error {
	var faults []error
	err := tests(fsys, func(name, text string) {
		for _, id := range ids(text) {
			if _, known := r.rows[id]; !known {
				faults = append(faults, fmt.Errorf("%s: names %s, which is no row of docs/spec", name, id))
			}
			if r.proven[id] == "" {
				r.proven[id] = name
			}
		}
		for _, match := range rangePattern.FindAllString(text, -1) {
			r.ranges = append(r.ranges, name+": "+match)
		}
	})
	return errors.Join(append(faults, err)...)
}

// Write prints a line for each prefix, and if verbose what is left.
func (r *Report) Write(w io.Writer, verbose bool) error {
	var text strings.Builder
	left := map[string][]ID{}
	for _, prefix := range Prefixes {
		var proven, all, superseded, excepted int
		for id := range r.rows {
			if id.Prefix != prefix {
				continue
			}
			all++
			_, over := r.superseded[id]
			_, out := r.excepted[id]
			switch {
			case over:
				superseded++
			case out:
				excepted++
			case r.proven[id] != "":
				proven++
			default:
				left[prefix] = append(left[prefix], id)
			}
		}
		fmt.Fprintf(&text, "spec %s proven %d of %d superseded %d excepted %d\n", prefix, proven, all, superseded, excepted)
	}
	if verbose {
		for _, prefix := range Prefixes {
			slices.SortFunc(left[prefix], compare)
			for _, id := range left[prefix] {
				fmt.Fprintln(&text, strings.TrimSpace("unproven "+id.String()+" "+r.rows[id]))
			}
		}
		for _, match := range r.ranges {
			fmt.Fprintln(&text, "only the ends count of the range in "+path.Clean(match))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
