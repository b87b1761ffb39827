// Package errdefs holds the few kinds of error that mesopod's parts tell apart.
//
// A kind is wrapped on the way up (fmt.Errorf("bind pod %s: %w", name, errdefs.ErrConflict)) and asked for
// with errors.Is on the way down. Nobody decides by the text of an error. The package imports the standard
// library only; errors of the API server are turned into kinds at the doors that talk to it.
package errdefs

import "errors"

// The kinds.
var (
	// ErrInvalid is bad input: doing the same again cannot help.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound is a missing object, an earlier incarnation's UID included.
	ErrNotFound = errors.New("not found")
	// ErrConflict is an object in another state than the caller took it for.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable is a peer that cannot answer now: the same call may succeed later.
	ErrUnavailable = errors.New("unavailable")
	// ErrRefused is a peer that understood and said no.
	ErrRefused = errors.New("refused")
	// ErrLost is a call whose outcome is not known.
	ErrLost = errors.New("outcome unknown")
)
