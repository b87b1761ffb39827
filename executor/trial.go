package executor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/golang/glog"
)

// The files of documents. What is in use is told by the first; the second and the third are there while it is on trial.
const (
	inUseFile   = "executor-config.yaml"
	beforeFile  = inUseFile + ".before"
	trialFile   = inUseFile + ".trial"
	refusedFile = inUseFile + ".refused"
)

// mostStarts is how many executors in a row may end before their kubelet lives, until the document on trial is blamed: one
// may be killed by chance. failed in the place of their number blames it at once.
const (
	mostStarts = 2
	failed     = "failed"
)

// documents keeps the operator's document for the next executor. A new one is on trial until a kubelet lives by it, since
// nothing but a start can tell whether one does, and a kubelet that does not start would cost all pods of the node, on
// every node at once. One that fails the trial is refused, and the one before comes back.
type documents struct{ dir string }

func (d documents) read(file string) []byte {
	text, err := os.ReadFile(filepath.Join(d.dir, file))
	if err != nil && !os.IsNotExist(err) {
		glog.Errorf("miss file of the configuration err=%v", err)
	}
	return text
}

func (d documents) write(file string, text []byte) error {
	if err := replaceFile(filepath.Join(d.dir, file), text); err != nil {
		return fmt.Errorf("keep configuration: %w", err)
	}
	return nil
}

func (d documents) remove(files ...string) error {
	var errs []error
	for _, file := range files {
		if err := os.Remove(filepath.Join(d.dir, file)); err != nil && !os.IsNotExist(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inUse is the document to live by; empty if there is none.
func (d documents) inUse() []byte { return d.read(inUseFile) }

// refused tells whether this document failed its trial.
func (d documents) refused(text []byte) bool {
	return len(text) > 0 && bytes.Equal(text, d.read(refusedFile))
}

// keep replaces the document by one that says the same.
func (d documents) keep(text []byte) error { return d.write(inUseFile, text) }

// try replaces the document by one that is on trial. starts is 1 if this executor lives by it, 0 if the next one is to.
func (d documents) try(text []byte, starts int) error {
	if err := d.remove(refusedFile); err != nil {
		return err
	}
	before := d.inUse()
	if trial := d.read(trialFile); trial != nil {
		before = d.read(beforeFile) // the last one that is known to be good
	}
	if err := d.write(beforeFile, before); err != nil {
		return err
	}
	if err := d.write(trialFile, []byte(strconv.Itoa(starts))); err != nil {
		return err
	}
	return d.write(inUseFile, text)
}

// start tells whether the document in use is on trial in this executor. One that failed is replaced by the one before.
func (d documents) start() (onTrial bool, err error) {
	trial := d.read(trialFile)
	if trial == nil {
		return false, nil
	}
	starts, err := strconv.Atoi(string(trial))
	if err == nil && starts < mostStarts {
		return true, d.write(trialFile, []byte(strconv.Itoa(starts+1)))
	}
	glog.Errorf("refuse configuration reason=%q", "no kubelet lived by it; the one before is used")
	if err := d.write(refusedFile, d.inUse()); err != nil {
		return false, err
	}
	if before := d.read(beforeFile); len(before) > 0 {
		err = d.write(inUseFile, before)
	} else {
		err = d.remove(inUseFile)
	}
	return false, errors.Join(err, d.remove(trialFile, beforeFile))
}

// good ends the trial well, fail badly: the next start will not use the document.
func (d documents) good() error { return d.remove(trialFile, beforeFile) }
func (d documents) fail() error { return d.write(trialFile, []byte(failed)) }
