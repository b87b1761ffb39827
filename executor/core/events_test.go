package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestEveryEventIsTaken: events and effects are closed sets, and a new one must not be forgotten. An event without a
// case in take would only be noted; an effect without one in the scenarios' show could not be seen in any story.
func TestEveryEventIsTaken(t *testing.T) {
	for _, tt := range []struct{ from, marker, in, prefix string }{
		{"event.go", "event", "core.go", "case "},
		{"effect.go", "effect", "scenario_test.go", "case core."},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), tt.from, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != tt.marker {
				continue
			}
			found++
			name := f.Recv.List[0].Type.(*ast.Ident).Name
			if !strings.Contains(string(text), tt.prefix+name+":") {
				t.Errorf("%s of %s has no case in %s", name, tt.from, tt.in)
			}
		}
		if found == 0 {
			t.Errorf("no %s found in %s", tt.marker, tt.from)
		}
	}
}
