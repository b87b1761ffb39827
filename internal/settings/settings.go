package settings

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Setting is one thing that an operator decides.
type Setting struct {
	// Key is its name in a document: that of its flag in camel case, such as failoverTimeout.
	Key string
	// Flag is its name on the command line without dashes in front. Empty: only a document has it.
	Flag string
	// Help is a phrase for people, without a full stop.
	Help string
	// Value points to what holds it: *string, *bool, *int, *float64, *time.Duration, *[]string, or a pointer to something
	// with json tags.
	Value any
}

// Copy gives to the value of from, a setting of the same list over another variable.
func Copy(to, from Setting) {
	reflect.ValueOf(to.Value).Elem().Set(reflect.ValueOf(from.Value).Elem())
}

// Identity is what a document has to call itself.
type Identity struct{ APIVersion, Kind string }

// Fault is what is wrong with a setting.
type Fault struct {
	// Key names the setting, or a place in it such as profiles[0].plugins. Empty: the document as a whole.
	Key string
	// Line is where that is known already; else the key tells. The first one is 1.
	Line int
	Err  error
}

// Faultf is a fault of one setting.
func Faultf(key, format string, args ...any) Fault {
	return Fault{Key: key, Err: fmt.Errorf(format, args...)}
}

// Document is where settings come from. The zero value is none: all of them are defaults.
type Document struct {
	// Name is told with faults: the file's path.
	Name string

	lines map[string]int    // of each key, and of each place below it, that the document has
	flags map[string]string // of each key that a flag was given for
}

// Given notes that a flag decides on a setting, whatever the document says.
func (d *Document) Given(s Setting) {
	if d.flags == nil {
		d.flags = map[string]string{}
	}
	d.flags[s.Key] = s.Flag
}

// Error tells all faults, one a line, each with where its setting comes from: the file's line, the flag, or nothing for a
// default. It is errdefs.ErrInvalid, and nil without faults.
func (d *Document) Error(what string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	type told struct {
		line int
		text string
	}
	var all []told
	for _, f := range faults {
		line, where := d.place(f)
		all = append(all, told{line, where + f.Err.Error()})
	}
	slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(all))
	for i, one := range all {
		errs[i] = errors.New(one.text)
	}
	if len(errs) == 1 {
		return fmt.Errorf("%s: %w: %w", what, errdefs.ErrInvalid, errs[0])
	}
	return fmt.Errorf("%s: %w: %d faults:\n%w", what, errdefs.ErrInvalid, len(errs), errors.Join(errs...))
}

// place is where a fault is. What is above a key that the document does not have stands for it.
func (d *Document) place(f Fault) (line int, where string) {
	top, _, _ := strings.Cut(f.Key, "[")
	top, _, _ = strings.Cut(top, ".")
	if flag, given := d.flags[top]; given && f.Line == 0 {
		return 0, "--" + flag + ": "
	}
	line = f.Line
	for key := f.Key; line == 0 && key != ""; key = key[:max(0, strings.LastIndexAny(key, ".["))] {
		line = d.lines[key]
	}
	if line > 0 {
		where = fmt.Sprintf("%s:%d: ", d.Name, line)
	} else if f.Key == "" && d.Name != "" {
		where = d.Name + ": "
	}
	if f.Key != "" {
		where += f.Key + ": "
	}
	return line, where
}
