// Package settings is a program's configuration as a list: each setting is told once, with its name in a document, its
// flag, its help and the variable that holds it. Flags, the default document, the strict reading of a document and the
// places that faults are told with all come from that list.
//
// Order of calls: the owner of a configuration makes the list over a value that holds the defaults. Then [Read] lays a
// document over them, whoever knows flags lays those over it with [Copy] and [Document.Given], the owner checks the
// result, and [Document.Error] tells all faults together with their places. [Write] prints the document that says what
// the list's variables hold.
//
// A document is YAML or JSON of one level: a field is a setting. Structured settings are decoded by their json tags. The
// package does no I/O and owns no goroutine.
package settings
