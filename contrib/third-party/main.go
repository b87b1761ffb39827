// Third-party writes THIRD_PARTY.md: the Go modules that are linked into the programs of the bundle, with version and
// licence, and the parts that are no Go modules. The licence is recognised by the text in the module itself; one that is
// not recognised, or not among those that go together with ours, is an error and has to be looked at.
//
// usage: third-party [-check] [ROOT]      with -check nothing is written, and a difference is an error
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if THIRD_PARTY.md differs")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := run(root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "third-party:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	text, err := page(root)
	if err != nil {
		return err
	}
	name := filepath.Join(root, "THIRD_PARTY.md")
	if !check {
		return os.WriteFile(name, []byte(text), 0o644)
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if string(old) != text {
		return fmt.Errorf("%s is out of date; run go run ./contrib/third-party and look at the difference", name)
	}
	return nil
}
