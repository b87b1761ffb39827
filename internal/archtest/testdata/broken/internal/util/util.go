// Package util has a vague name.
package util // want: package-name

// The Good type keeps the rule.
type Good struct{}

type Bad struct{} // want: exported-doc

// Wrong begins with another name.
type Other struct{} // want: exported-doc

type (
	// Grouped keeps the rule.
	Grouped             struct{}
	Undocumented[T any] struct{ t T } // want: exported-doc
)

// Do does it.
func (g *Good) Do() {}

func (g Good) Forget() {} // want: exported-doc

func (u *Undocumented[T]) Forget() {} // want: exported-doc

func (g Good) String() string { return "" }

func (i inner) Hidden() {}

type inner struct{}

func Open() {} // want: exported-doc

// unrelated

func Near() {} // want: exported-doc

func closed() {}
