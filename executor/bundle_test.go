package executor

import (
	"os"
	"path/filepath"
	"testing"
)

// A launch that names another bundle than the one we run from has the keeper told, once for each.
func TestOrderBundle(t *testing.T) {
	signals := 0
	o := &orderer{file: filepath.Join(t.TempDir(), "order"), running: "old", signal: func() error { signals++; return nil }, after: func(do func()) { do() }}
	for _, c := range []struct {
		envelope string
		signals  int
		file     string
	}{
		{`{}`, 0, ""},
		{`{"bundle":{"sha256":"old","sources":["/a"]}}`, 0, ""},
		{`{"bundle":{"sha256":"new","sources":["/a"]}}`, 1, `{"sha256":"new","sources":["/a"]}`},
		{`{"bundle":{"sha256":"new","sources":["/a"]}}`, 1, `{"sha256":"new","sources":["/a"]}`},
		{`{"bundle":{"sha256":"newer","sources":["/b"]}}`, 2, `{"sha256":"newer","sources":["/b"]}`},
	} {
		o.offer([]byte(c.envelope))
		text, err := os.ReadFile(o.file)
		if signals != c.signals || string(text) != c.file || err != nil && c.file != "" {
			t.Errorf("%s: %d signals, file %q, error %v", c.envelope, signals, text, err)
		}
	}
	// An executor without a keeper orders nothing.
	o = &orderer{signal: func() error { t.Error("a signal"); return nil }, after: func(do func()) { do() }}
	o.offer([]byte(`{"bundle":{"sha256":"new"}}`))
}
