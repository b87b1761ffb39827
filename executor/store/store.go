// Package store keeps the executor's ledger in a file, so that a restarted executor goes on where the one before was
// killed. What is written here is on the disk before anything is acted on.
//
// Order of calls: Open once, Append before each set of effects, Rewrite when Full says so, Close. An error of Append or
// Rewrite is final: what the file ends with is unknown, so nothing more may be acted on, and the next executor reads what
// is there. The package has no goroutines; one loop owns the file.
//
// The file's name is the id of the Mesos container. The executor of another container must not take over an old ledger:
// Mesos has told its scheduler of the end of those tasks. So Open removes all other files of the folder.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
)

const (
	suffix = ".ledger"
	// damagedSuffix is that of a copy for people of a file that was damaged.
	damagedSuffix = suffix + ".damaged"
	// leastFull and fullFactor say how much of the file may be old news, in bytes and as a multiple of what matters.
	leastFull, fullFactor = 1 << 20, 4
)

// File is the ledger's file.
type File struct {
	path  string
	owner ledger.Owner
	open  opener
	file  file
	// size is that of the file, fresh what it was after the last rewrite.
	size, fresh int
}

// file is what is needed of an *os.File; tests put one in its place that dies.
type file interface {
	Write([]byte) (int, error)
	Sync() error
	Close() error
}

type opener func(path string) (file, error)

func create(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}

// Open reads the ledger that this owner left in the folder, which is made when it is missing, and begins a new file
// with what matters of it. What cannot be read is logged and kept aside, and the ledger says that it is damaged; it
// never is taken for empty without a word.
func Open(folder string, owner ledger.Owner) (*File, *ledger.Ledger, error) {
	return openWith(folder, owner, create)
}

func openWith(folder string, owner ledger.Owner, open opener) (*File, *ledger.Ledger, error) {
	if owner.Container == "" || owner.Container != filepath.Base(owner.Container) {
		return nil, nil, fmt.Errorf("ledger: container id %q is no file name: %w", owner.Container, errdefs.ErrInvalid)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, fmt.Errorf("ledger folder: %w", err)
	}
	f := &File{path: filepath.Join(folder, owner.Container+suffix), owner: owner, open: open}
	known, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	if err := f.Rewrite(known.Snapshot()); err != nil {
		return nil, nil, err
	}
	return f, known, f.removeOthers(folder)
}

func (f *File) read() (*ledger.Ledger, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ledger.New(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	owner, records, damage := ledger.Decode(data)
	if owner != f.owner && owner != (ledger.Owner{}) {
		damage.Lost = append(damage.Lost, fmt.Errorf("it is the ledger of %+v, not of %+v", owner, f.owner))
		records = nil
	}
	known := ledger.Replay(records)
	if damage.Torn > 0 {
		glog.Warningf("drop unfinished record of ledger file=%s bytes=%d reason=%q", f.path, damage.Torn, "nothing was done because of it yet")
	}
	if err := damage.Err(); err != nil {
		aside := strings.TrimSuffix(f.path, suffix) + damagedSuffix
		glog.Errorf("go on with what can be read of ledger file=%s copy=%s records=%d err=%v", f.path, aside, len(records), err)
		known.SetDamaged(true)
		if err := os.WriteFile(aside, data, 0o600); err != nil {
			glog.Warningf("keep no copy of damaged ledger file=%s err=%v", aside, err)
		}
	}
	if len(records) > 0 {
		glog.Infof("recover ledger file=%s tasks=%d pods=%d", f.path, len(known.Tasks()), len(known.Pods()))
	}
	return known, nil
}

// removeOthers removes the ledgers of containers that are no more.
func (f *File) removeOthers(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("ledger folder: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), f.owner.Container+".") {
			continue
		}
		glog.Infof("remove ledger file=%s reason=%q", e.Name(), "its Mesos container is no more")
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			glog.Warningf("leave old ledger err=%v", err)
		}
	}
	return nil
}

// Append writes the records of changes, each of which counts as a whole, and returns when they are as safe as they
// need to be.
func (f *File) Append(changes ...[]ledger.Record) error {
	var text []byte
	urgent := false
	for _, records := range changes {
		var err error
		if text, err = ledger.AppendRecords(text, records...); err != nil {
			return err
		}
		urgent = urgent || slices.ContainsFunc(records, ledger.Record.Urgent)
	}
	if len(text) == 0 {
		return nil
	}
	if _, err := f.file.Write(text); err != nil {
		return fmt.Errorf("write ledger %s: %w: %w", f.path, errdefs.ErrLost, err)
	}
	f.size += len(text)
	if !urgent {
		return nil
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("sync ledger %s: %w: %w", f.path, errdefs.ErrLost, err)
	}
	return nil
}

// Full tells whether most of the file is old news.
func (f *File) Full() bool { return f.size > max(leastFull, fullFactor*f.fresh) }

// Rewrite puts a new file with these records in the place of the old one: at any moment one of them is whole.
func (f *File) Rewrite(records []ledger.Record) error {
	text, err := ledger.AppendHeader(nil, f.owner)
	if err != nil {
		return err
	}
	for _, r := range records {
		if text, err = ledger.AppendRecords(text, r); err != nil {
			return err
		}
	}
	next, err := f.write(f.path+".new", text)
	if err != nil {
		return fmt.Errorf("write ledger: %w: %w", errdefs.ErrLost, err)
	}
	if f.file != nil {
		if err := f.file.Close(); err != nil {
			glog.Warningf("close old ledger file=%s err=%v", f.path, err)
		}
	}
	f.file, f.size, f.fresh = next, len(text), len(text)
	return nil
}

func (f *File) write(path string, text []byte) (file, error) {
	next, err := f.open(path)
	if err != nil {
		return nil, err
	}
	if _, err = next.Write(text); err == nil {
		err = next.Sync()
	}
	if err == nil {
		err = os.Rename(path, f.path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// syncFolder makes a new name last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Close closes the file.
func (f *File) Close() error {
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}
