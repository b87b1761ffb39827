// Package cli is what all of mesopod's programs share about being a program: log flags and their set-up, exit codes
// and the version. Only cmd touches flags, so nothing outside cmd imports it.
//
// Order of calls: [AddLogFlags] on the root command's persistent flags, then [StartLogs] once the flags are parsed and
// before anything logs, then [ExitCode] on what the command returned. It owns no goroutine.
//
// glog claims Go's flag.CommandLine when it is linked in, and klog registers nothing until it is asked. So the flags
// people see are glog's, put onto cobra's flags by hand; klog gets a private flag set that follows them, and writes
// to where glog writes: one stream, one format.
package cli

import (
	"errors"
	"fmt"
)

// The exit codes of mesopod.
const (
	// ExitOK is success, or an end that was asked for.
	ExitOK = 0
	// ExitFailed is any failure that has no code of its own.
	ExitFailed = 1
	// ExitUsage is a wrong flag, argument or configuration file: trying again cannot help.
	ExitUsage = 2
	// ExitKubelet is an executor whose kubelet ended: its tasks were reported lost.
	ExitKubelet = 3
	// ExitNotPlaced is a plan for a pod that would not be placed now.
	ExitNotPlaced = 6
)

// codedError is an error that wants its own exit code.
type codedError struct {
	err  error
	code int
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// WithCode gives err an exit code. A nil err stays nil.
func WithCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return &codedError{err: err, code: code}
}

// Usage marks err as a fault of the flags, the arguments or a configuration file.
func Usage(err error) error { return WithCode(err, ExitUsage) }

// Usagef is Usage of a new error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// ErrSilent ends a program whose command has told the user what was wrong already. It is wrapped by WithCode.
var ErrSilent = errors.New("failed")

// ExitCode is the exit code for what a command returned: that of the first error in its chain which was given one, else
// ExitFailed.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if code, ok := CodeOf(err); ok {
		return code
	}
	return ExitFailed
}

// CodeOf tells the exit code that an error was given, if it was.
func CodeOf(err error) (int, bool) {
	// By type, since a process that a signal ended is an error with an exit code of its own, -1.
	if coded, ok := errors.AsType[*codedError](err); ok {
		return coded.code, true
	}
	return 0, false
}
