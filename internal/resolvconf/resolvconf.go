// Package resolvconf finds the name servers of a machine that its pods can use. It exists because both the executor,
// whose kubelet gives them to pods, and local mode, whose DNS server asks them, have to find the same. It only reads.
package resolvconf

import (
	"net/netip"
	"os"
	"strings"
)

// The places of the file. systemd-resolved leaves a stub on the loopback device in the usual one, and its real servers in
// the other.
const (
	usual   = "/etc/resolv.conf"
	systemd = "/run/systemd/resolve/resolv.conf"
)

// File is the path of the file that pods are to inherit, empty if there is none: every pod would fail on a file that is
// missing.
func File() string { return file(usual, systemd) }

func file(paths ...string) string {
	first := ""
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if len(Servers(string(text))) > 0 {
			return path
		}
		if first == "" {
			first = path
		}
	}
	return first
}

// Servers are the name servers of a resolv.conf, without those on the loopback device: a pod has one of its own.
func Servers(text string) []netip.Addr {
	var servers []netip.Addr
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if address, err := netip.ParseAddr(fields[1]); err == nil && !address.IsLoopback() {
			servers = append(servers, address)
		}
	}
	return servers
}
