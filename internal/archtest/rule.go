package archtest

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule is one rule of the house.
type Rule struct {
	// Name is short, for the fault's line.
	Name string
	// Why is the reason, printed with every fault.
	Why string
	// Except maps the path of a file that may break the rule to the reason why it may.
	Except map[string]string

	find func(*Tree, *File) []Fault
}

// Fault is a place that breaks a rule.
type Fault struct {
	Rule *Rule
	Path string
	Line int
	What string
}

// String returns the fault as file:line, what is wrong, and the rule with its reason.
func (f Fault) String() string {
	return fmt.Sprintf("%s:%d: %s\n\trule %s: %s", f.Path, f.Line, f.What, f.Rule.Name, f.Rule.Why)
}

// Rules returns all rules, those of the import table first.
func Rules() []*Rule {
	var all []*Rule
	for i := range imports {
		all = append(all, imports[i].rule())
	}
	for i := range calls {
		all = append(all, calls[i].rule())
	}
	return append(all, forms()...)
}

// Check runs the rules over the tree and returns their faults by path and line. An exception that excuses nothing is a
// fault of its own, at line 0, since it would hide the next breach.
func Check(t *Tree, rules []*Rule) []Fault {
	var faults []Fault
	for _, rule := range rules {
		used := map[string]bool{}
		for _, file := range t.Files {
			for _, fault := range rule.find(t, file) {
				if _, excepted := rule.Except[file.Path]; excepted {
					used[file.Path] = true
					continue
				}
				fault.Rule, fault.Path = rule, file.Path
				faults = append(faults, fault)
			}
		}
		for name, reason := range rule.Except {
			if !used[name] {
				faults = append(faults, Fault{Rule: rule, Path: name, What: "needs its exception no longer (" + reason + "); remove it"})
			}
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What))
	})
	return faults
}
