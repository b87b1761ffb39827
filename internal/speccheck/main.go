// Speccheck counts how much of the specification in docs/spec is proven. It prints one line a prefix,
//
//	spec EX proven P of N superseded S excepted E
//
// where N counts all rows, and each row is counted once: as superseded if its row says by which other, else as excepted
// if docs/spec-exceptions.md gives a reason, else as proven if a test or its testdata names the id. With -v it lists the
// rows that are left, and ranges such as "EX-1 to EX-9" in tests: only ids that are written out count.
//
// It fails if the lists contradict themselves or a test names an id that is no row, not if something is unproven.
//
// usage: speccheck [-v] [ROOT]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	verbose := flag.Bool("v", false, "list the rows that are not proven")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	report, err := Read(os.DirFS(root))
	if err == nil {
		err = report.Write(os.Stdout, *verbose)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "speccheck:", err)
		os.Exit(1)
	}
}
