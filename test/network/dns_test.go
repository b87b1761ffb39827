package network

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/resolvconf"
	"github.com/mesopod/mesopod/test/cluster"
)

// Pods find Services by name, of their own namespace by the short one; a headless Service is the addresses of its pods.
func TestNames(t *testing.T) {
	t.Parallel()
	suite.Create(t, webPod("names-1", "names", suite.Node(1)))
	suite.Create(t, webPod("names-2", "names", suite.Node(2)))
	createService(t, "names", func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone })
	first, second := waitReady(t, "names-1").Status.PodIP, waitReady(t, "names-2").Status.PodIP
	both := []string{first, second}
	slices.Sort(both)
	for name, want := range map[string]string{
		"kubernetes.default":                   "10.96.0.1",
		"kubernetes.default.svc.cluster.local": "10.96.0.1",
		"names":                                strings.Join(both, "\n"),
		"kube-dns.kube-system.svc":             "10.96.0.10",
	} {
		cluster.Eventually(t, "name "+name, func(ctx context.Context) error {
			got, err := page(ctx, first, "/lookup?name="+url.QueryEscape(name))
			if err == nil && got != want {
				err = fmt.Errorf("its addresses are %q, want %q", got, want)
			}
			return err
		})
	}
}

// A pod's dnsPolicy says whose name servers it gets.
func TestResolvConf(t *testing.T) {
	t.Parallel()
	host, err := os.ReadFile(resolvconf.File())
	if err != nil {
		t.Fatal(err)
	}
	servers := []string{}
	for _, one := range resolvconf.Servers(string(host)) {
		servers = append(servers, one.String())
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.PodSpec)
		want   []string
		search string
	}{
		{"dns-first", func(*corev1.PodSpec) {}, []string{"10.96.0.10"}, "default.svc.cluster.local"},
		{"dns-host", func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSDefault }, servers, ""},
		{"dns-host-network", func(s *corev1.PodSpec) { s.HostNetwork, s.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet }, []string{"10.96.0.10"}, "svc.cluster.local"},
		{"dns-own", func(s *corev1.PodSpec) {
			s.DNSPolicy, s.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}, Searches: []string{"example.org"}}
		}, []string{"192.0.2.53"}, "example.org"},
	} {
		pod := cluster.NewPod(c.name, "cat /etc/resolv.conf; echo end")
		c.change(&pod.Spec)
		suite.Create(t, pod)
		text := suite.WaitLog(t, c.name, "end")
		var got []string
		for _, one := range resolvconf.Servers(text) {
			got = append(got, one.String())
		}
		if !slices.Equal(got, c.want) || !strings.Contains(text, c.search) {
			t.Errorf("pod %s has name servers %v, want %v, and in search %q:\n%s", c.name, got, c.want, c.search, text)
		}
	}
}
