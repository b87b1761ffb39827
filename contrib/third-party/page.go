package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is a group of programs that are linked from one go.mod.
type program struct {
	title string
	// dir is the folder of the go.mod, below the root.
	dir string
	// packages and tags as go build gets them; cgo as CGO_ENABLED.
	packages []string
	tags     string
	cgo      string
}

// What contrib/build.sh, contrib/images/build.sh and contrib/runtime/build.sh build for linux/amd64.
var programs = []program{
	{title: "mesopod and mesopod-keeper", dir: ".", packages: []string{"./cmd/mesopod", "./cmd/mesopod-keeper"}, cgo: "0"},
	{title: "containerd, its shim and ctr, runc, CNI plugins", dir: "contrib/runtime", packages: []string{"tool"}, tags: "seccomp,netgo,osusergo", cgo: "1"},
	{title: "the DNS server in the image dns", dir: "contrib/images/dns", packages: []string{"."}, cgo: "0"},
}

const head = `# Third-party software

What the programs of mesopod's bundle are made of, beside mesopod itself. This file is written by
contrib/third-party from the licence files of the modules; make verify checks it. The licence texts stand in the modules
at the versions named; where a module has a NOTICE file, it goes with any copy of the programs, as Apache-2.0 asks.

All programs written in Go contain Go's standard library (BSD-3-Clause).
`

const tail = `
## Parts that are no Go modules

| part | in | licence |
|---|---|---|
| libseccomp, from Debian's libseccomp-dev | runc, linked statically | LGPL-2.1-only |
| GNU C library, from Debian's libc6-dev | runc and the pause image, linked statically | LGPL-2.1-or-later |
| BusyBox, from Debian's busybox-static | images/busybox.tar, which demo and tests use | GPL-2.0-only |

Whoever passes on a bundle passes these on too, and owes their source: Debian's source packages of the same versions.
`

// page returns the text of THIRD_PARTY.md.
func page(root string) (string, error) {
	var text strings.Builder
	text.WriteString(head)
	var faults []error
	for _, p := range programs {
		modules, err := p.modules(root)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "\n## %s\n\n| module | version | licence | notice |\n|---|---|---|---|\n", p.title)
		for _, m := range modules {
			licence, notice, err := licenceOf(os.DirFS(m.dir))
			if err != nil {
				faults = append(faults, fmt.Errorf("module %s %s: %w", m.path, m.version, err))
				continue
			}
			fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", m.path, m.version, licence, notice)
		}
	}
	text.WriteString(tail)
	return text.String(), errors.Join(faults...)
}

// module is a Go module in the module cache.
type module struct{ path, version, dir string }

const format = `{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}} {{.Dir}}{{else}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}`

// modules returns the modules whose packages the programs link, by path.
func (p program) modules(root string) ([]module, error) {
	arguments := append([]string{"list", "-deps", "-tags", p.tags, "-f", format}, p.packages...)
	command := exec.Command("go", arguments...)
	command.Dir = filepath.Join(root, p.dir)
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED="+p.cgo)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules of %s: %w: %s", p.title, err, strings.TrimSpace(stderr.String()))
	}
	return parse(string(out))
}

// parse reads lines of path, version and folder, with repetitions; a folder may have spaces.
func parse(text string) ([]module, error) {
	var all []module
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("go list says %q, want path, version and folder; is the module downloaded?", line)
		}
		all = append(all, module{fields[0], fields[1], fields[2]})
	}
	if len(all) == 0 {
		return nil, errors.New("go list names no module")
	}
	slices.SortFunc(all, func(a, b module) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	return slices.Compact(all), nil
}
