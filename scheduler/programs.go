package scheduler

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mesopod/mesopod/internal/bundle"
	"github.com/mesopod/mesopod/internal/settings"
	served "github.com/mesopod/mesopod/scheduler/bundle"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Programs say which bundle agents run, and where keepers get it. The zero value: agents have the programs in
// Config.BundleDir.
type Programs struct {
	// Archive is a file of `mesopod bundle`, which the scheduler serves where it serves executors.
	Archive string
	// SHA256 names the bundle where the scheduler has no Archive, for it is served elsewhere.
	SHA256 string
	// Sources are where keepers get it, the best first: absolute paths of folders on agents and http(s) URLs of folders, in
	// which the archive has its SHA-256 for a name; the word SourceScheduler is the scheduler itself. Empty: that one alone.
	Sources []string
	// CacheDir is where keepers keep bundles, on the agents.
	CacheDir string
	// Transfers is how many keepers the scheduler serves at once; all others are told when to come back.
	Transfers int
}

// SourceScheduler is the scheduler among Programs.Sources.
const SourceScheduler = "scheduler"

const defaultCacheDir = "/var/lib/mesopod/bundles"

// check tells all faults.
func (p Programs) check(access ExecutorAccess) (faults []settings.Fault) {
	fault := func(key, format string, args ...any) { faults = append(faults, settings.Faultf(key, format, args...)) }
	if p.Archive != "" && p.SHA256 != "" {
		fault("bundleSHA256", "bundle %s is named already: the archive tells its SHA-256", p.Archive)
	}
	if _, err := bundle.ParseDigest(p.SHA256); p.SHA256 != "" && err != nil {
		fault("bundleSHA256", "%w", err)
	}
	named := p.Archive != "" || p.SHA256 != ""
	if !named && len(p.Sources) > 0 {
		fault("bundleSources", "%v without a bundle: set bundle or bundleSHA256", p.Sources)
	}
	if named && p.own() && (p.Archive == "" || access.Listen == "") {
		fault("bundleSources", "the scheduler is to serve the bundle: that needs bundle and executorListen; or name other sources")
	}
	for i, source := range p.Sources {
		if source != SourceScheduler && !path.IsAbs(source) && !strings.HasPrefix(source, "http://") && !strings.HasPrefix(source, "https://") {
			fault(fmt.Sprintf("bundleSources[%d]", i), "%q is neither %q, nor an absolute path on the agents, nor an http(s) URL", source, SourceScheduler)
		}
	}
	if named && !path.IsAbs(p.CacheDir) {
		fault("bundleCache", "%q is not an absolute path", p.CacheDir)
	}
	if p.Archive != "" && p.Transfers < 1 {
		fault("bundleTransfers", "%d at once, at least 1 is needed", p.Transfers)
	}
	return faults
}

// own tells whether the scheduler is a source.
func (p Programs) own() bool {
	return len(p.Sources) == 0 || slices.Contains(p.Sources, SourceScheduler)
}

// open reads the archive, where there is one, and tells what launches say of the bundle.
func (p Programs) open(access ExecutorAccess) (procure.Bundle, *served.Archive, error) {
	b := procure.Bundle{SHA256: p.SHA256, CacheDir: p.CacheDir}
	var archive *served.Archive
	if p.Archive != "" {
		var err error
		if archive, err = served.Open(p.Archive, p.Transfers); err != nil {
			return b, nil, err
		}
		b.SHA256 = archive.Digest()
	}
	if b.SHA256 == "" {
		return b, nil, nil
	}
	own := access.url() + served.Path
	for _, source := range p.Sources {
		if source == SourceScheduler {
			source = own
		}
		b.Sources = append(b.Sources, source)
	}
	if len(b.Sources) == 0 {
		b.Sources = []string{own}
	}
	return b, archive, nil
}
