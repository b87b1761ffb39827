package scheduler

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/settings"
)

func TestPrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(file, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := strings.Repeat("0a", 32)
	access := ExecutorAccess{Listen: ":9443", URL: "https://s:9443"}
	own := "https://s:9443/v1/bundle"
	for name, c := range map[string]struct {
		programs Programs
		sources  []string
		served   bool
	}{
		"folder":    {Programs{}, nil, false},
		"served":    {Programs{Archive: file}, []string{own}, true},
		"elsewhere": {Programs{SHA256: digest, Sources: []string{"/mnt", "http://m/b"}}, []string{"/mnt", "http://m/b"}, false},
		"all":       {Programs{Archive: file, Sources: []string{"/mnt", "scheduler"}}, []string{"/mnt", own}, true},
	} {
		p := c.programs
		p.CacheDir, p.Transfers = "/var/cache", 1
		if faults := p.check(access); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
		b, archive, err := p.open(access)
		if err != nil || !slices.Equal(b.Sources, c.sources) || (archive != nil) != c.served || (b.SHA256 == "") != (c.sources == nil) {
			t.Errorf("%s: %+v, archive %v, error %v", name, b, archive, err)
		}
		if archive != nil {
			if err := archive.Close(); err != nil || archive.Digest() != b.SHA256 {
				t.Errorf("%s: %s, error %v", name, archive.Digest(), err)
			}
		}
	}
	for want, p := range map[string]Programs{
		"archive tells":    {Archive: file, SHA256: digest},
		"hexadecimal":      {SHA256: "x", Sources: []string{"/mnt"}},
		"without a bundle": {Sources: []string{"/mnt"}},
		"needs bundle and": {SHA256: digest},
		`"mnt"`:            {SHA256: digest, Sources: []string{"mnt"}},
	} {
		p.CacheDir, p.Transfers = "/var/cache", 1
		if err := new(settings.Document).Error("test", p.check(access)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
	err := new(settings.Document).Error("test", Programs{Archive: file, CacheDir: "x"}.check(ExecutorAccess{}))
	for _, want := range []string{"executorListen", `"x"`, "bundleTransfers: 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not served: %v, want %s", err, want)
		}
	}
	if _, _, err := (Programs{Archive: file + ".none", Transfers: 1}).open(access); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("missing archive: %v", err)
	}
}
