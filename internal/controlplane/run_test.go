package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func mustClient(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func pause(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{SchedulerName: "mesos", Containers: []corev1.Container{{Name: "c", Image: "example.test/pause:1"}}},
	}
}

// One control plane is started in this process and looked at from all sides,
// then another process is started on what it left behind.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	p, err := New(Config{Dir: dir, Address: net.IPv4(127, 0, 0, 1), PodCIDR: "10.244.0.0/16", Phase: func(name string, took time.Duration) {
		t.Logf("phase %s took %s", name, took.Round(time.Millisecond))
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-p.Ready():
	case err := <-ended:
		t.Fatalf("Run ended before ready: %v", err)
	}
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))

	t.Run("pod", func(t *testing.T) { testPod(t, p) })
	t.Run("executor", func(t *testing.T) { testExecutor(t, p) })
	t.Run("policies", func(t *testing.T) { testPolicies(t, p) })
	t.Run("other scheduler", func(t *testing.T) { testOtherScheduler(t, p) })
	t.Run("scheduler", func(t *testing.T) { testScheduler(t, p) })
	t.Run("certificate", func(t *testing.T) { testCertificate(t, p) })
	t.Run("kubelet", func(t *testing.T) { testKubelet(t, p) })
	t.Run("anonymous", func(t *testing.T) { testAnonymous(t, p) })
	t.Run("pod range", func(t *testing.T) { testPodRange(t, p) })
	t.Run("modes", func(t *testing.T) { testModes(t, dir) })
	t.Run("second", func(t *testing.T) { testSecond(t, p) })

	// An open watch must not hold up the end.
	watch, err := mustClient(t, p.AdminKubeconfig()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	stopping := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	took := time.Since(stopping)
	t.Logf("stopped after %s", took.Round(time.Millisecond))
	if took > stopLimit {
		t.Errorf("the stop took %s", took)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(p.Server(), "https://")); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
	t.Run("restart", func(t *testing.T) { testRestart(t, dir) })
}

// A pod can be made at once after Ready, with service account admission on.
func testPod(t *testing.T, p *Plane) {
	pods := mustClient(t, p.AdminKubeconfig()).CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pause("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := pods.Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.ServiceAccountName != "default" {
		t.Errorf("service account = %q, want default", got.Spec.ServiceAccountName)
	}
	if len(got.Spec.Volumes) != 1 || got.Spec.Volumes[0].Projected == nil {
		t.Errorf("volumes = %v, want the token's", got.Spec.Volumes)
	}
}

// Without credentials only health may be asked for.
func testAnonymous(t *testing.T, p *Plane) {
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer c.CloseIdleConnections()
	for path, want := range map[string]int{"/readyz": 200, "/livez": 200, "/api": 401, "/version": 401} {
		resp, err := c.Get(p.Server() + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// Nodes get a range of pod addresses from the controllers.
func testPodRange(t *testing.T, p *Plane) {
	client := mustClient(t, p.AdminKubeconfig())
	mustNode(t, client, "r1")
	err := poll(t.Context(), func(ctx context.Context) error {
		n, err := client.CoreV1().Nodes().Get(ctx, "r1", metav1.GetOptions{})
		if err == nil && !strings.HasSuffix(n.Spec.PodCIDR, "/24") {
			err = fmt.Errorf("range is %q", n.Spec.PodCIDR)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func testModes(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	secrets := 0
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		secret := e.Name() == "pki" || e.Name() == "etcd" || e.Name() == "run" || strings.HasSuffix(e.Name(), ".kubeconfig")
		if secret {
			secrets++
		}
		if secret && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", e.Name(), info.Mode())
		}
	}
	if secrets < 6 {
		t.Errorf("only %d of the files that must be closed are there", secrets)
	}
}

func testSecond(t *testing.T, p *Plane) {
	if _, err := New(p.cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("New on a folder in use = %v", err)
	}
	other, err := New(Config{Dir: t.TempDir(), Address: p.cfg.Address})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already run one") {
		t.Errorf("second Run = %v, want: already run one", err)
	}
}

// Other processes on the same folder, at another address, find the pods, also
// after one of them was killed.
func testRestart(t *testing.T, dir string) {
	address := outsideAddress(t)
	second := startChild(t, dir, address)
	second.mustSay(t, "ready ")
	client := mustClient(t, files{dir: dir}.kubeconfig("admin"))
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pause("before-kill"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if !address.IsLoopback() {
		checkEndpoint(t, client, address)
	}
	if err := second.end(syscall.SIGKILL); err == nil {
		t.Error("a killed process ended well")
	}

	third := startChild(t, dir, address)
	third.mustSay(t, "ready ")
	client = mustClient(t, files{dir: dir}.kubeconfig("admin"))
	for _, name := range []string{"kept", "before-kill"} {
		if _, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("pod of an earlier run: %v", err)
		}
	}
	stopping := time.Now()
	if err := third.end(syscall.SIGTERM); err != nil {
		t.Errorf("third run: %v\n%s", err, third.stderr.String())
	}
	t.Logf("third run stopped after %s", time.Since(stopping).Round(time.Millisecond))
}

// An end that is asked for during the start is waited for and is no error.
func TestStopDuringStart(t *testing.T) {
	for _, phase := range []string{"etcd", "kube-apiserver"} {
		t.Run(phase, func(t *testing.T) {
			c := startChild(t, t.TempDir(), net.IPv4(127, 0, 0, 1))
			c.mustSay(t, "phase "+phase)
			if err := c.end(syscall.SIGTERM); err != nil {
				t.Errorf("stopped after %s: %v\n%s", phase, err, c.stderr.String())
			}
			if strings.Contains(c.rest.String(), "ready") {
				t.Errorf("it says it was ready: %s", c.rest.String())
			}
		})
	}
}

// Data that etcd cannot use ends Run with an error that names both.
func TestDamagedData(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(files{dir: dir}.etcdData(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, dir, net.IPv4(127, 0, 0, 1))
	if err := c.end(0); err == nil {
		t.Error("it ended well")
	}
	if got := c.stderr.String(); !strings.Contains(got, "etcd: start with data in "+dir) {
		t.Errorf("stderr does not name etcd and its data: %s", got)
	}
}

// checkEndpoint makes sure that pods find the API server behind its Service.
func checkEndpoint(t *testing.T, client kubernetes.Interface, address net.IP) {
	t.Helper()
	err := poll(t.Context(), func(ctx context.Context) error {
		slice, err := client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil && (len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != address.String()) {
			err = fmt.Errorf("endpoints of Service kubernetes = %v, want %s", slice.Endpoints, address)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// outsideAddress is an address of this machine that others could reach, or
// loopback if it has none.
func outsideAddress(t *testing.T) net.IP {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip := a.(*net.IPNet).IP.To4(); ip != nil && ip.IsGlobalUnicast() {
			return ip
		}
	}
	return net.IPv4(127, 0, 0, 1)
}
