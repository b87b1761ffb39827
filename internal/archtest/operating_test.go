package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOperatingPage: docs/operating.md has a row for each status message, exit code, metric, flag, variable and field of the
// configuration by which an executor and its keeper meet an operator, and each row tells something.
func TestOperatingPage(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(os.DirFS(root), "github.com/mesopod/mesopod")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, heading string
		words         []string
		atLeast       int // fewer were not found in the source: the search is out of date
		row           func(cells []string, word string) bool
	}{
		{"status message", "## Status messages of tasks", reasons(tree), 19, func(cells []string, word string) bool {
			return len(cells) == 3 && names(cells[0], word) && cells[1] != "" && len(cells[2]) > len("look")
		}},
		{"exit code", "## Exit codes", exitCodes(tree), 7, func(cells []string, word string) bool { return cells[0] == word }},
		{"metric", "## Looking at an executor", metricNames(tree), 9, first},
		{"flag", "## Flags of executor and keeper", flags(tree), 9, first},
		{"variable", "## On a Mesos cluster", operatorVariables(tree), 5, first},
		{"field", "", fields(tree, "messages/executorconfig.go", "ExecutorConfig"), 13, nil},
		{"field", "", fields(tree, "executor/config.go", "Config"), 10, nil},
	} {
		if len(c.words) < c.atLeast {
			t.Errorf("%d kinds of %s are in the source, want at least %d: %v", len(c.words), c.what, c.atLeast, c.words)
		}
		text := section(string(page), c.heading)
		for _, word := range c.words {
			found := strings.Contains(text, "`"+word+"`") || regexp.MustCompile(`(?m)^`+word+`: `).MatchString(text) || strings.Contains(text, word+":  ")
			if c.row != nil {
				found = slices.ContainsFunc(rows(text), func(cells []string) bool { return c.row(cells, word) })
			}
			if !found {
				t.Errorf("docs/operating.md, %q: %s %s has no row that tells of it", c.heading, c.what, word)
			}
		}
	}
}

// first: the word is in the first cell, and another cell says something.
func first(cells []string, word string) bool {
	return len(cells) > 1 && names(cells[0], word) && cells[len(cells)-1] != ""
}

// names tells whether a cell has a word as code, alone or as the beginning of it.
func names(cell, word string) bool {
	return regexp.MustCompile("`-{0,2}" + regexp.QuoteMeta(word) + "([^a-z0-9_-][^`]*)?`").MatchString(cell)
}

// section is the page from a heading to the next of its level, all of it without one.
func section(page, heading string) string {
	if heading == "" {
		return page
	}
	_, text, _ := strings.Cut(page, "\n"+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// rows are the cells of the rows of all tables of a text.
func rows(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || !strings.HasSuffix(line, " |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}

// each calls visit with the nodes of the files of production code below some paths.
func each(tree *Tree, visit func(ast.Node), below ...string) {
	for _, f := range tree.Files {
		in := func(prefix string) bool { return f.Path == prefix || strings.HasPrefix(f.Path, prefix+"/") }
		if f.Test || !slices.ContainsFunc(below, in) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

func text(e ast.Expr) string {
	if lit, is := e.(*ast.BasicLit); is && lit.Kind == token.STRING {
		if s, err := strconv.Unquote(lit.Value); err == nil {
			return s
		}
	}
	return ""
}

// reasons are the values of the constants of type Reason, and the beginning of TASK_RUNNING's message.
func reasons(tree *Tree) (found []string) {
	each(tree, func(n ast.Node) {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 {
			return
		}
		kind, _ := spec.Type.(*ast.Ident)
		if kind != nil && kind.Name == "Reason" {
			found = append(found, text(spec.Values[0]))
		} else if spec.Names[0].Name == "runningPrefix" {
			found = append(found, strings.TrimSuffix(text(spec.Values[0]), ":"))
		}
	}, "messages/reason.go")
	return found
}

// exitCodes are the numbers of the constants that are named for it.
func exitCodes(tree *Tree) (found []string) {
	named := regexp.MustCompile(`^[eE]xit[A-Z]\w*$|^\w+Code$`)
	each(tree, func(n ast.Node) {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 || !named.MatchString(spec.Names[0].Name) {
			return
		}
		if lit, is := spec.Values[0].(*ast.BasicLit); is && lit.Kind == token.INT && !slices.Contains(found, lit.Value) {
			found = append(found, lit.Value)
		}
	}, "cmd/internal/cli", "cmd/mesopod-keeper", "executor")
	return found
}

// metricNames are the names of the executor's series.
func metricNames(tree *Tree) (found []string) {
	each(tree, func(n ast.Node) {
		lit, is := n.(*ast.CompositeLit)
		if !is {
			return
		}
		values := map[string]string{}
		for _, e := range lit.Elts {
			if kv, is := e.(*ast.KeyValueExpr); is {
				if key, is := kv.Key.(*ast.Ident); is {
					values[key.Name] = text(kv.Value)
				}
			}
		}
		if values["Subsystem"] != "" {
			found = append(found, values["Subsystem"]+"_"+values["Name"])
		}
	}, "executor")
	return found
}

// flags are those of the keeper, of `mesopod executor`, and of all programs' logs.
func flags(tree *Tree) (found []string) {
	each(tree, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun, is := n.Fun.(*ast.SelectorExpr)
			if !is || !strings.HasSuffix(fun.Sel.Name, "Var") && !slices.Contains([]string{"Func", "Int64", "Bool", "Duration", "String"}, fun.Sel.Name) {
				return
			}
			if owner, is := fun.X.(*ast.Ident); is && owner.Name != "flag" {
				return
			}
			for _, argument := range n.Args {
				if name := text(argument); name != "" {
					found = append(found, name)
					return
				}
			}
		case *ast.ValueSpec:
			if n.Names[0].Name != "glogFlags" {
				return
			}
			for _, e := range n.Values[0].(*ast.CompositeLit).Elts {
				found = append(found, text(e.(*ast.CompositeLit).Elts[0]))
			}
		}
	}, "cmd/mesopod-keeper/main.go", "cmd/mesopod/executor.go", "cmd/internal/cli/logs.go")
	return found
}

// operatorVariables are the variables of the executor's that an operator sets by the agent's flag.
func operatorVariables(tree *Tree) (found []string) {
	each(tree, func(n ast.Node) {
		kv, is := n.(*ast.KeyValueExpr)
		if is && strings.HasPrefix(text(kv.Key), "MESOPOD_") {
			found = append(found, text(kv.Key))
		}
		call, is := n.(*ast.CallExpr)
		if !is || len(call.Args) != 1 {
			return
		}
		if fun, is := call.Fun.(*ast.SelectorExpr); is && fun.Sel.Name == "Getenv" && strings.HasPrefix(text(call.Args[0]), "MESOPOD_") {
			found = append(found, text(call.Args[0]))
		}
	}, "executor/env.go", "cmd/mesopod-keeper/main.go")
	return found
}

// fields are the names in JSON of a struct's fields.
func fields(tree *Tree, file, name string) (found []string) {
	each(tree, func(n ast.Node) {
		spec, is := n.(*ast.TypeSpec)
		if !is || spec.Name.Name != name {
			return
		}
		body, is := spec.Type.(*ast.StructType)
		if !is {
			return
		}
		for _, field := range body.Fields.List {
			if field.Tag == nil {
				continue
			}
			tag, _ := strconv.Unquote(field.Tag.Value)
			if key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); key != "" && key != "-" {
				found = append(found, key)
			}
		}
	}, file)
	return found
}
