// Package gadget is in neither list.
package gadget // want: core-or-shell
