package kubelet

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/features"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

func config() Config {
	return Config{
		Node: "a1", NodeIP: "10.0.0.1", Port: 10250, Kubeconfig: "/k", ClientCAFile: "/ca", TLSCertFile: "/crt", TLSPrivateKeyFile: "/key",
		RootDir: "/run/mesopod/a1/kubelet", PodLogsDir: "/logs", RuntimeSocket: "/run/mesopod/a1/containerd.sock", CgroupRoot: "/mesos/c1",
		Capacity: messages.Capacity{Cores: 2, MilliCPU: 1500, MemoryBytes: 1 << 30},
	}
}

func TestValidate(t *testing.T) {
	if err := config().validate(); err != nil {
		t.Fatal(err)
	}
	for part, change := range map[string]func(*Config){
		"Node is empty":        func(c *Config) { c.Node = "" },
		"no loopback address":  func(c *Config) { c.NodeIP = "127.0.0.1" },
		"out of range":         func(c *Config) { c.Port = 0 },
		"shorter state folder": func(c *Config) { c.RootDir = "/" + strings.Repeat("x", 90) },
		"too small":            func(c *Config) { c.Capacity.Cores = 0 },
	} {
		bad := config()
		change(&bad)
		if err := bad.validate(); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

// What upstream would refuse to start with, and the settings that an executor stands on.
func TestConfigurationIsValidUpstream(t *testing.T) {
	k, err := config().configuration()
	if err != nil {
		t.Fatal(err)
	}
	if err := options.ValidateKubeletServer(&options.KubeletServer{KubeletFlags: *config().flags(), KubeletConfiguration: *k}); err != nil {
		t.Error(err)
	}
	if spare := k.SystemReserved["cpu"]; spare != "500m" {
		t.Errorf("of 2 cores of which 1.5 are ours %q are spared", spare)
	}
	if k.FailCgroupV1 || k.CgroupRoot != "/mesos/c1" || k.Authentication.Anonymous.Enabled || k.Authorization.Mode != "Webhook" ||
		k.ReadOnlyPort != 0 || k.MakeIPTablesUtilChains || k.ImageGCHighThresholdPercent != 100 || k.CPUCFSQuota {
		t.Errorf("configuration %+v", k)
	}
	if _, found := k.EvictionHard["memory.available"]; found {
		t.Error("pods are evicted as long as all of them together may have less than the threshold")
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.PodsAPI) {
		t.Error("the kubelet serves no PodsAPI: its poller would wait for ever")
	}
}

// An operator's section wins over our defaults, keeps the rest, and is refused for what upstream would refuse.
func TestSection(t *testing.T) {
	c := config()
	c.Section = []byte(`{"podPidsLimit":77,"evictionHard":{"nodefs.available":"5%"},"containerLogMaxSize":"1Mi"}`)
	k, err := c.configuration()
	if err != nil {
		t.Fatal(err)
	}
	if k.PodPidsLimit != 77 || k.ContainerLogMaxSize != "1Mi" || k.EvictionHard["nodefs.available"] != "5%" || k.EvictionHard["imagefs.available"] != "1%" ||
		k.CgroupRoot != "/mesos/c1" || k.MaxPods != 110 {
		t.Errorf("configuration %+v", k)
	}
	if err := options.ValidateKubeletServer(&options.KubeletServer{KubeletFlags: *c.flags(), KubeletConfiguration: *k}); err != nil {
		t.Error(err)
	}
	for section, want := range map[string]string{
		`{}`: "",
		`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"}`: "",
		`{"podPidLimit":7}`:                  `unknown field "podPidLimit"`,
		`{"crashLoopBackOff":{"x":1}}`:       `unknown field "crashLoopBackOff.x"`,
		`{"podPidsLimit":"x"}`:               "podPidsLimit",
		`{"eventBurst":-3}`:                  "eventBurst",
		`{"kind":"Pod"}`:                     "it is a",
		`{"featureGates":{"PodsAPI":false}}`: "featureGates.PodsAPI",
		`{"featureGates":{"Nope":true}}`:     "Nope",
	} {
		err := CheckSection([]byte(section))
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
}

// PC-50, EX-41: feeding never waits, the newest snapshot wins, and the kubelet gets copies, never nil.
func TestFeeder(t *testing.T) {
	f := newFeeder()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "first", Annotations: map[string]string{"by": "the caller"}}}
	f.put([]*corev1.Pod{pod})
	f.put([]*corev1.Pod{pod, pod})
	pod.Name = "changed later"
	got := make(chan []*corev1.Pod)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.run(ctx, func(ctx context.Context, pods []*corev1.Pod) {
			select {
			case got <- pods:
			case <-ctx.Done():
			}
		})
	}()
	next := func() []*corev1.Pod {
		select {
		case pods := <-got:
			return pods
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was fed")
			return nil
		}
	}
	pods := next()
	if len(pods) != 2 || pods[0].Name != "first" {
		t.Fatalf("fed %v", pods)
	}
	pods[0].Annotations["by"] = "the kubelet"
	if got := pod.Annotations["by"]; got != "the caller" {
		t.Errorf("what the kubelet annotates is seen by the caller: %s", got)
	}
	f.put(nil)
	if pods := next(); pods == nil || len(pods) != 0 {
		t.Errorf("fed %v for an empty set", pods)
	}
	f.put(nil) // nobody takes it: the end must not wait for that
	cancel()
	<-ended
}

func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	for _, line := range []string{"I0101 server.go:1] \"ListPods called\"\n", "I0101 server.go:1] \"Pod update broadcasted\"\n"} {
		if n, err := (quiet{&out}).Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	if got := out.String(); !strings.Contains(got, "broadcasted") || strings.Contains(got, "ListPods") {
		t.Errorf("out %q", got)
	}
}
