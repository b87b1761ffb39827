// Package bundle serves the archive of mesopod's programs to the keepers of agents (package internal/bundle tells what it
// is). It exists so that a cluster needs nothing on its agents but Mesos.
//
// Order of calls: Open, then Handler serves GET /v1/bundle/{sha256} until Close. There are no goroutines. When thousands
// of agents start at once a bounded number of transfers goes on, and all others are told to come back at a time by which,
// as things go, there will be a place for them.
package bundle

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/internal/bundle"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// Pattern is what the handler answers, for http.ServeMux. Path is its part before the digest: the source to name to keepers.
const (
	Path    = "/v1/bundle"
	Pattern = "GET " + Path + "/{sha256}"
)

const (
	// DefaultTransfers is how many keepers are served at once.
	DefaultTransfers = 32
	// transferLimit bounds one answer. A keeper that was too slow goes on where it was cut.
	transferLimit = 2 * time.Minute
	// firstGuess is how long a transfer is thought to take before one has ended.
	firstGuess = 2 * time.Second
	// longestWait is the most that a keeper is told to wait.
	longestWait = 30 * time.Second
	// memory is for how long a keeper that was sent away counts as one that will come back.
	memory = 30 * time.Second
)

// Archive is an archive that is served.
type Archive struct {
	digest    bundle.Digest
	file      *os.File
	size      int64
	modified  time.Time
	transfers int

	mu      sync.Mutex
	running int
	// usual is how long transfers take, the latest weighing most.
	usual time.Duration
	// refused are the times at which keepers were sent away, of the last while.
	refused []time.Time
}

// Open reads the archive once, for its digest, and keeps it open: a file that is replaced under its name changes
// nothing. Transfers is how many may go on at once. Errors are errdefs.ErrInvalid.
func Open(path string, transfers int) (*Archive, error) {
	if transfers < 1 {
		return nil, fmt.Errorf("bundle: %d transfers at once, at least 1 are needed: %w", transfers, errdefs.ErrInvalid)
	}
	digest, err := bundle.DigestOf(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bundle archive: %w: %w", errdefs.ErrInvalid, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bundle archive %s: %w: %w", path, errdefs.ErrInvalid, err), file.Close())
	}
	return &Archive{digest: digest, file: file, size: info.Size(), modified: info.ModTime(), transfers: transfers, usual: firstGuess}, nil
}

// Digest is the archive's SHA-256.
func (a *Archive) Digest() string { return string(a.digest) }

// Close ends what reads the file.
func (a *Archive) Close() error { return a.file.Close() }

// ServeHTTP answers Pattern.
func (a *Archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if asked := r.PathValue("sha256"); asked != a.Digest() {
		http.Error(w, fmt.Sprintf("bundle %.64q is not served here, %s is", asked, a.digest), http.StatusNotFound)
		return
	}
	wait, ok := a.begin(time.Now())
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		http.Error(w, "as many keepers as may be are fetching: come back", http.StatusServiceUnavailable)
		return
	}
	began := time.Now()
	defer func() { a.end(time.Since(began)) }()
	if err := http.NewResponseController(w).SetWriteDeadline(began.Add(transferLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		glog.Warningf("serve bundle client=%s reason=%q", r.RemoteAddr, err)
	}
	glog.V(1).Infof("serve bundle digest=%s client=%s range=%q", a.digest.Short(), r.RemoteAddr, r.Header.Get("Range"))
	w.Header().Set("Content-Type", "application/zstd")
	w.Header().Set("ETag", `"`+a.Digest()+`"`)
	// Each name has one content for ever.
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", a.modified, io.NewSectionReader(a.file, 0, a.size))
}

// begin takes a place, or tells when to come back.
func (a *Archive) begin(now time.Time) (wait time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running < a.transfers {
		a.running++
		return 0, true
	}
	for len(a.refused) > 0 && now.Sub(a.refused[0]) > memory {
		a.refused = a.refused[1:]
	}
	a.refused = append(a.refused, now)
	// Those who were sent away lately stand in line: each row of transfers takes as many of them as there are places.
	rows := 1 + len(a.refused)/a.transfers
	return min(max(time.Duration(rows)*a.usual, time.Second), longestWait), false
}

// end gives a place back.
func (a *Archive) end(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	a.usual = (3*a.usual + took) / 4
	// Whoever got a place has most likely been sent away before.
	if len(a.refused) > 0 {
		a.refused = a.refused[1:]
	}
}
