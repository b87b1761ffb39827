// Package archtest holds the rules of the house that a compiler does not check: which package may import which, what a
// pure core must not do, who may end the process, and how files and exported names look. They are tests, so that a
// change which breaks one is told at once, with the reason for the rule beside the place.
//
// It reads source text with go/parser and builds nothing, so all rules together take a second or two and need none of
// the packages they speak about. The price is that only direct imports and plain calls are seen: time.Now behind a
// function variable is not. What the programs link in the end is listed in docs/deps (contrib/deps-list.sh).
//
// Order of calls: Load reads a tree, Check runs Rules over it. TestHouse does so for this module; TestBroken does it for
// testdata/broken, where each line that must be found says so, so that every rule is known to be able to fail.
//
// Adding a rule: an entry in one of the tables (imports.go, calls.go, form.go) and a line in testdata/broken. An
// exception is an entry in the rule's Except with its reason; one that nothing needs any longer is a fault itself.
package archtest
