package messages_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/messages"
)

// The bundle comes out of an envelope as it went in, and nothing comes out of one without, or of nonsense.
func TestBundleOf(t *testing.T) {
	want := messages.Bundle{SHA256: "ab", Sources: []string{"/mnt/bundles", "https://s:1/v1/bundle"}}
	l := sampleLaunch()
	without, err := messages.EncodeLaunch(l)
	if err != nil {
		t.Fatal(err)
	}
	l.Bundle = &want
	with, err := messages.EncodeLaunch(l)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := messages.BundleOf(with)
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	for _, bad := range []string{string(without), "", "{", `{"bundle":1}`, `{"bundle":{}}`, `{"bundle":null}`} {
		if got, ok := messages.BundleOf([]byte(bad)); ok {
			t.Errorf("%.40q has %v", bad, got)
		}
	}
}
