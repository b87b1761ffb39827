package scheduler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/pki"
	"github.com/mesopod/mesopod/internal/settings"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/credentials"
)

// withClientCA is a fake API server that publishes an authority for its clients.
func withClientCA(t *testing.T) kubernetes.Interface {
	t.Helper()
	authority, err := pki.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(authority.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	client := newAPIServer("37")
	if _, err := client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: authenticationConfigMap}, Data: map[string]string{clientCAKey: string(ca)},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return client
}

func newGatekeeper(t *testing.T, client kubernetes.Interface) *gatekeeper {
	t.Helper()
	nothing, err := newDocument("", ignored)
	if err != nil {
		t.Fatal(err)
	}
	g := &gatekeeper{
		config: nothing,
		access: ExecutorAccess{Listen: "127.0.0.1:0", URL: "https://10.0.0.1:9443", CertificateLife: time.Hour}, client: client,
		api: apiServer{url: "https://10.0.0.1:6443", ca: []byte("ca")}, server: newServer("127.0.0.1:0"),
		runs: func(context.Context, credentials.Holder) bool { return true },
	}
	if err := errors.Join(g.prepare(t.Context()), g.prepare(t.Context())); err != nil { // the second as after a failure later on
		t.Fatal(err)
	}
	return g
}

// Each envelope of an ACCEPT gets the same access with a token; the core's effect keeps none.
func TestEquip(t *testing.T) {
	g := newGatekeeper(t, withClientCA(t))
	envelope := []byte(`{"version":1,"taskID":"u.1"}`)
	accept := core.Accept{AgentID: "A1", Node: "a1", Tasks: []mesos.TaskInfo{{Data: envelope}, {Data: envelope}}}
	equipped := g.equip(accept)
	first, ok := messages.AccessOf(equipped.Tasks[0].Data)
	if !ok || first.URL != "https://10.0.0.1:9443" || first.Token == "" || !bytes.Equal(first.KeySHA256, g.server.keySHA256) {
		t.Errorf("access %v %t", first, ok)
	}
	if second, _ := messages.AccessOf(equipped.Tasks[1].Data); second.Token != first.Token {
		t.Error("two tokens for one executor")
	}
	if _, ok := messages.AccessOf(accept.Tasks[0].Data); ok {
		t.Error("the core's effect was written to")
	}
	if next, _ := messages.AccessOf(g.equip(accept).Tasks[0].Data); next.Token == first.Token {
		t.Error("a token was given out twice")
	}
}

// The key is that of the scheduler before, whatever process asks; a Secret that is no key is told of.
func TestServingKeyStays(t *testing.T) {
	client := withClientCA(t)
	first, second := newGatekeeper(t, client), newGatekeeper(t, client)
	if !bytes.Equal(first.server.keySHA256, second.server.keySHA256) {
		t.Error("the second scheduler has another key")
	}
	secrets := client.CoreV1().Secrets(Namespace)
	stored, err := secrets.Get(t.Context(), ServingSecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.Data[corev1.TLSPrivateKeyKey] = []byte("junk")
	if _, err := secrets.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := loadServing(t.Context(), client); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), ServingSecretName) {
		t.Errorf("got %v, want ErrInvalid with the name of the Secret", err)
	}
	if _, err := loadClientCA(t.Context(), newAPIServer("37")); err == nil {
		t.Error("an API server without authority for clients is good enough")
	}
}

// The server has the pinned key, lets everybody ask, and waits for its port.
func TestServer(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGatekeeper(t, withClientCA(t))
	g.server.listen = taken.Addr().String()
	waiting := make(chan struct{})
	g.server.handle("GET /news", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(waiting)
		<-r.Context().Done() // none come
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- g.server.run(ctx) }()
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.server.bound:
	case <-time.After(patience):
		t.Fatal("it does not take the port")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Post("https://"+g.server.address.String()+messages.CredentialsPath, "application/json", strings.NewReader("junk"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusBadRequest {
		t.Errorf("%s %s, %v", response.Status, body, err)
	}
	if sum := sha256.Sum256(response.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo); !bytes.Equal(sum[:], g.server.keySHA256) {
		t.Error("it has another key than it says")
	}
	// Who waits for news does not hold up the end.
	late := make(chan error, 1)
	go func() {
		response, err := client.Get("https://" + g.server.address.String() + "/news")
		if err == nil {
			err = response.Body.Close()
		}
		late <- err
	}()
	<-waiting
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	<-late
}

func TestExecutorAccessFaults(t *testing.T) {
	good := ExecutorAccess{CertificateLife: time.Hour, Listen: "10.0.0.1:9443"}
	for want, change := range map[string]func(*ExecutorAccess){
		"":                             func(*ExecutorAccess) {},
		"no certificate for":           func(a *ExecutorAccess) { a.CertificateLife = time.Minute },
		"executorCertificateRenewal: ": func(a *ExecutorAccess) { a.RenewAfter = 2 * time.Hour },
		"missing port":                 func(a *ExecutorAccess) { a.Listen = "here" },
		"names no host":                func(a *ExecutorAccess) { a.Listen = ":9443" },
		"without an address":           func(a *ExecutorAccess) { a.Listen, a.URL = "", "https://x:1" },
		"executorConfig: f":            func(a *ExecutorAccess) { a.Listen, a.ConfigFile = "", "f" },
		"executorURL: ":                func(a *ExecutorAccess) { a.URL = "http://x:1" },
		"executorAPIServer: ":          func(a *ExecutorAccess) { a.APIServer = "x:1" },
	} {
		a := good
		change(&a)
		err := new(settings.Document).Error("test", a.check())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	for _, config := range []*rest.Config{{Host: "http://x:1"}, {Host: "https://x:1"}, {Host: "https://x:1", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nothing"}}} {
		if _, err := apiServerOf(config, good); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", config.Host, err)
		}
	}
}
