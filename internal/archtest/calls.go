package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// callRule forbids functions of other packages, and the go statement, to some files.
type callRule struct {
	name string
	// in tells whether the rule speaks about a file.
	in func(*File) bool
	// banned maps import paths to the functions and variables that must not be named.
	banned map[string]*regexp.Regexp
	// goStatements is true if goroutines are forbidden too.
	goStatements bool
	// inside names functions that are free of the rule.
	inside []string
	except map[string]string
	why    string
}

func pure(f *File) bool { return !f.Test && matches(f.Dir, cores) }

var clock = regexp.MustCompile(`^(Now|After|AfterFunc|Sleep|NewTimer|NewTicker|Since|Until|Tick)$`)

// The functions of math/rand that draw from the process's own source; New and the sources take a seed.
var globalRand = regexp.MustCompile(`^(Exp|Float|Int|Norm|Perm|Read|Seed|Shuffle|N$|Uint|Uint32|Uint64)`)

var calls = []callRule{
	{
		name: "core-clock", in: pure, goStatements: true,
		banned: map[string]*regexp.Regexp{
			"time":                                 clock,
			"context":                              regexp.MustCompile(`^(Background|TODO|With.*|AfterFunc)$`),
			"math/rand":                            globalRand,
			"math/rand/v2":                         globalRand,
			"github.com/pborman/uuid":              regexp.MustCompile(`^New.*$`),
			"github.com/google/uuid":               regexp.MustCompile(`^(New.*|Must)$`),
			"k8s.io/apimachinery/pkg/apis/meta/v1": regexp.MustCompile(`^Now(Micro)?$`),
			"k8s.io/apimachinery/pkg/util/uuid":    regexp.MustCompile(`^NewUUID$`),
			"k8s.io/apimachinery/pkg/util/rand":    regexp.MustCompile(`.`),
		},
		why: "a core gets time, ids and randomness as values and starts no goroutine: the same events give the same effects (ADR 001)",
	},
	{
		name: "main-exits", in: func(f *File) bool { return f.Package != "main" || f.Test }, inside: []string{"TestMain"},
		banned: map[string]*regexp.Regexp{
			"os":                     regexp.MustCompile(`^Exit$`),
			"syscall":                regexp.MustCompile(`^Exit$`),
			"golang.org/x/sys/unix":  regexp.MustCompile(`^Exit$`),
			"log":                    regexp.MustCompile(`^(Fatal|Panic)`),
			"github.com/golang/glog": regexp.MustCompile(`^(Fatal|Exit)`),
			"k8s.io/klog/v2":         regexp.MustCompile(`^(Fatal|Exit|FlushAndExit)`),
		},
		why: "only main ends the process; anywhere else it would skip what its callers must still do: send an update, remove a mount",
	},
	{
		name: "context-root", in: func(f *File) bool { return f.Package != "main" && !f.Test },
		banned: map[string]*regexp.Regexp{"context": regexp.MustCompile(`^(Background|TODO)$`)},
		except: map[string]string{
			"cmd/internal/local/local.go":   "what was started is stopped after the caller's context ended, with a deadline of its own",
			"cmd/internal/local/outside.go": "the sweep after an end must not be cut short by that end",
		},
		why: "a context comes from main; work that outlives its caller uses context.WithoutCancel, a deadline and a comment",
	},
	{
		name: "no-sleep", in: func(f *File) bool { return f.Package != "main" || f.Test },
		banned: map[string]*regexp.Regexp{"time": regexp.MustCompile(`^Sleep$`)},
		why:    "a sleep is too short on a loaded machine, too long on all others, and cannot be cancelled: wait for the thing itself, or poll with a timer and a deadline",
	},
}

func (c *callRule) rule() *Rule {
	return &Rule{Name: c.name, Why: c.why, Except: c.except, find: c.find}
}

func (c *callRule) find(t *Tree, f *File) []Fault {
	if !c.in(f) {
		return nil
	}
	names := c.localNames(f)
	if len(names) == 0 && !c.goStatements {
		return nil
	}
	var faults []Fault
	for _, decl := range f.AST.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok && f.Test && slices.Contains(c.inside, function.Name.Name) {
			continue
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.GoStmt:
				if c.goStatements {
					faults = append(faults, Fault{Line: t.line(n.Pos()), What: "starts a goroutine"})
				}
			case *ast.SelectorExpr:
				left, ok := n.X.(*ast.Ident)
				if !ok {
					return true
				}
				if banned := names[left.Name]; banned != nil && banned.MatchString(n.Sel.Name) {
					faults = append(faults, Fault{Line: t.line(n.Pos()), What: fmt.Sprintf("uses %s.%s", left.Name, n.Sel.Name)})
				}
			}
			return true
		})
	}
	return faults
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// localNames maps the names under which the file knows the packages with banned functions.
func (c *callRule) localNames(f *File) map[string]*regexp.Regexp {
	names := map[string]*regexp.Regexp{}
	for _, spec := range f.AST.Imports {
		name := strings.Trim(spec.Path.Value, "`\"")
		banned := c.banned[name]
		if banned == nil {
			continue
		}
		local := path.Base(name)
		if version.MatchString(local) && strings.Contains(name, "/") && !strings.HasPrefix(name, "k8s.io/apimachinery/") {
			local = path.Base(path.Dir(name))
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = banned
	}
	return names
}
