package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestEveryEventIsTaken: the type switch over events is complete, so that a new event cannot be forgotten.
func TestEveryEventIsTaken(t *testing.T) {
	taken := cases(t, "core.go", "take")
	for _, name := range markers(t, "event.go", "event") {
		if !taken[name] {
			t.Errorf("event %s is not in the switch of take", name)
		}
	}
}

// TestEveryEffectIsTold: the scenarios can show every effect.
func TestEveryEffectIsTold(t *testing.T) {
	told := cases(t, "tell_test.go", "tell")
	for _, name := range markers(t, "effect.go", "effect") {
		if !told[name] {
			t.Errorf("effect %s is not in the switch of tell", name)
		}
	}
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// markers are the types of a closed set: the receivers of its marker method.
func markers(t *testing.T, file, method string) (names []string) {
	for _, decl := range parse(t, file).Decls {
		if f, is := decl.(*ast.FuncDecl); is && f.Recv != nil && f.Name.Name == method {
			names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("%s has no types with method %s", file, method)
	}
	return names
}

// cases are the types that a function's switch names, without their package.
func cases(t *testing.T, file, function string) map[string]bool {
	names := map[string]bool{}
	for _, decl := range parse(t, file).Decls {
		f, is := decl.(*ast.FuncDecl)
		if !is || f.Name.Name != function {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if c, is := n.(*ast.CaseClause); is {
				for _, expr := range c.List {
					switch e := expr.(type) {
					case *ast.Ident:
						names[e.Name] = true
					case *ast.SelectorExpr:
						names[e.Sel.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}
