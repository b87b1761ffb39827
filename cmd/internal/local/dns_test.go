package local

import (
	"bytes"
	"testing"

	"github.com/mesopod/mesopod/contrib/manifests"
)

// Only a machine with a name server that pods can reach is asked for names outside of the cluster.
func TestDNSFor(t *testing.T) {
	for text, want := range map[string]bool{"nameserver 10.0.0.1\n": true, "nameserver 127.0.0.53\n": false, "": false} {
		got := dnsFor(text, true)
		if bytes.Contains(got, []byte(manifests.DNSUpstream)) != want {
			t.Errorf("%q: wants upstream %v:\n%s", text, want, got)
		}
		if !bytes.Contains(got, []byte("clusterIP: "+manifests.DNSAddress)) {
			t.Errorf("%q: no Service at %s", text, manifests.DNSAddress)
		}
	}
	if bytes.Contains(dnsFor("nameserver 10.0.0.1\n", false), []byte(manifests.DNSUpstream)) {
		t.Error("a file that was not found is asked")
	}
}
