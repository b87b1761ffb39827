package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// Tree is the source of one Go module, parsed.
type Tree struct {
	// Module is the module's path, the beginning of the import path of each of its packages.
	Module string
	Files  []*File

	fset *token.FileSet
}

// File is one Go file of a Tree.
type File struct {
	// Path and Dir are relative to the module's root, with slashes; Dir is "." at the root.
	Path, Dir string
	// Package is the name in the package clause; "main" is a program.
	Package string
	// Test is true of files that only tests are built from: those by name, and the packages below test, which suites
	// share.
	Test bool
	// Lines counts the newlines of the file.
	Lines int
	AST   *ast.File
}

// Load parses all Go files of the module in fsys. It leaves out what belongs to nobody's build: testdata, folders that
// begin with a dot or an underscore, the build output bin, and folders with a go.mod of their own.
func Load(fsys fs.FS, module string) (*Tree, error) {
	t := &Tree{Module: module, fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return enter(fsys, name)
		case path.Ext(name) != ".go":
			return nil
		}
		return t.parse(fsys, name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the source of %s: %w", module, err)
	}
	return t, nil
}

// enter returns fs.SkipDir for a folder that is no part of the module.
func enter(fsys fs.FS, name string) error {
	base := path.Base(name)
	switch {
	case name == ".":
		return nil
	case name == "bin" || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"):
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func (t *Tree) parse(fsys fs.FS, name string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.Files = append(t.Files, &File{
		Path: name, Dir: path.Dir(name), Package: parsed.Name.Name,
		Test:  strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") && parsed.Name.Name != "main",
		Lines: bytes.Count(text, []byte("\n")), AST: parsed,
	})
	return nil
}

// line returns the line of a position.
func (t *Tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// imported returns what a file imports; the module's own packages are named as "./" and their folder.
func (t *Tree) imported(spec *ast.ImportSpec) string {
	name := strings.Trim(spec.Path.Value, "`\"")
	if own, found := strings.CutPrefix(name, t.Module+"/"); found {
		return "./" + own
	}
	return name
}

// matches reports whether name is one of the patterns: "a/b" is that alone, "a/b/..." that and everything below, "..."
// everything.
func matches(name string, patterns []string) bool {
	for _, pattern := range patterns {
		prefix, below := strings.CutSuffix(pattern, "...")
		prefix = strings.TrimSuffix(prefix, "/")
		if name == prefix && pattern != "..." || below && (prefix == "" || strings.HasPrefix(name, prefix+"/")) {
			return true
		}
	}
	return false
}
