package local

import (
	"bytes"
	"os"

	"github.com/mesopod/mesopod/contrib/manifests"
	"github.com/mesopod/mesopod/internal/controlplane"
	"github.com/mesopod/mesopod/internal/resolvconf"
)

// dnsManifest is the cluster's DNS server. On a machine without a name server that pods can reach it knows the names of
// the cluster alone.
func dnsManifest() controlplane.Manifest {
	text, err := os.ReadFile(resolvconf.File())
	return controlplane.Manifest{Name: "dns.yaml", Data: dnsFor(string(text), err == nil)}
}

func dnsFor(resolvConf string, found bool) []byte {
	if found && len(resolvconf.Servers(resolvConf)) > 0 {
		return manifests.DNS
	}
	return bytes.Replace(manifests.DNS, []byte(manifests.DNSUpstream), []byte("# no name server for names outside of the cluster"), 1)
}
