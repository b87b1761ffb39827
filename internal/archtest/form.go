package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Lines of a file at which to look again, and at which to split.
const (
	LookAgainLines = 400
	SplitLines     = 600
)

// forms returns the rules of how files and names look.
func forms() []*Rule {
	return []*Rule{
		{
			Name: "package-comment", find: packageComment,
			Why: "the package comment is where a newcomer learns why it exists, what to call in which order, and who owns its goroutines",
		},
		{
			Name: "exported-doc", find: exportedDoc,
			Why: "an exported name is a promise: its comment begins with the name and tells units, formats and errors",
		},
		{
			Name: "file-length", find: fileLength,
			Why: fmt.Sprintf("nobody finds anything in more than %d lines; split by what the parts do", SplitLines),
		},
		{
			Name: "package-name", find: packageName,
			Why: "a package is named by what it is about; these names take in anything",
		},
		{
			Name: "core-or-shell", find: coreOrShell,
			Why: "a package of scheduler or executor is a pure core or a shell; say which in cores or shells (imports.go), so that the right rules hold for it",
		},
		{
			Name: "dot-import", find: dotImport,
			Why: "a reader, and these rules, must see which package a name comes from",
		},
	}
}

// Long returns the files that are longer than LookAgainLines and not yet faults, as "path: lines".
func Long(t *Tree) []string {
	var long []string
	for _, f := range t.Files {
		if f.Lines > LookAgainLines && f.Lines <= SplitLines {
			long = append(long, fmt.Sprintf("%s: %d lines", f.Path, f.Lines))
		}
	}
	return long
}

// packageComment is told once a package, at its first file.
func packageComment(t *Tree, f *File) []Fault {
	first := true
	for _, other := range t.Files {
		if other.Dir != f.Dir || other.Package != f.Package {
			continue
		}
		if other.AST.Doc != nil {
			return nil
		}
		first = first && other.Path >= f.Path
	}
	// The outside tests of a package are described by the package itself.
	if !first || strings.HasSuffix(f.Package, "_test") {
		return nil
	}
	return []Fault{{Line: t.line(f.AST.Package), What: fmt.Sprintf("package %s in %s has no package comment", f.Package, f.Dir)}}
}

// wellKnown are methods whose meaning is fixed by the interfaces of the standard library.
var wellKnown = []string{"Error", "Is", "Less", "Len", "ServeHTTP", "String", "Swap", "Unwrap"}

func exportedDoc(t *Tree, f *File) []Fault {
	if f.Test || f.Package == "main" {
		return nil
	}
	var faults []Fault
	check := func(name *ast.Ident, kind string, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(doc *ast.CommentGroup) bool { return begins(doc, name.Name) }) {
			faults = append(faults, Fault{Line: t.line(name.Pos()), What: fmt.Sprintf("%s %s has no comment that begins with its name", kind, name.Name)})
		}
	}
	for _, decl := range f.AST.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case d.Recv == nil:
				check(d.Name, "function", d.Doc)
			case !slices.Contains(wellKnown, d.Name.Name) && ast.IsExported(receiver(d.Recv.List[0].Type)):
				check(d.Name, "method "+receiver(d.Recv.List[0].Type)+".", d.Doc)
			}
		case *ast.GenDecl:
			if d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.TypeSpec)
				check(s.Name, "type", s.Doc, d.Doc)
			}
		}
	}
	return faults
}

// receiver returns the name of a method's receiver type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// begins reports whether a comment begins with the name, after an article at most.
func begins(doc *ast.CommentGroup, name string) bool {
	words := strings.Fields(doc.Text())
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	return len(words) > 1 && strings.TrimRight(words[0], ",:;") == name
}

func fileLength(_ *Tree, f *File) []Fault {
	if f.Lines <= SplitLines {
		return nil
	}
	return []Fault{{Line: f.Lines, What: fmt.Sprintf("has %d lines", f.Lines)}}
}

func packageName(t *Tree, f *File) []Fault {
	vague := []string{"common", "helper", "helpers", "misc", "types", "util", "utils"}
	if f.Test || !slices.Contains(vague, f.Package) && !slices.Contains(vague, path.Base(f.Dir)) {
		return nil
	}
	return []Fault{{Line: t.line(f.AST.Package), What: "package " + f.Package + " in " + f.Dir}}
}

func coreOrShell(t *Tree, f *File) []Fault {
	if !matches(f.Dir, []string{"scheduler/...", "executor/..."}) || matches(f.Dir, cores) || matches(f.Dir, shells) {
		return nil
	}
	return []Fault{{Line: t.line(f.AST.Package), What: f.Dir + " is neither a core nor a shell"}}
}

func dotImport(t *Tree, f *File) []Fault {
	var faults []Fault
	for _, spec := range f.AST.Imports {
		if spec.Name != nil && spec.Name.Name == "." {
			faults = append(faults, Fault{Line: t.line(spec.Pos()), What: "imports " + spec.Path.Value + " into its own names"})
		}
	}
	return faults
}
