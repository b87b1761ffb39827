package credentials

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// accessMark begins the scheduler's access in an envelope.
var accessMark = []byte(`"keySHA256":"`)

// onDisk are the files of an agent and of its executor that hold the access of a launch.
func onDisk(t *testing.T, agent string) []string {
	t.Helper()
	var found []string
	for _, dir := range []string{"agent" + agent, "a" + agent} {
		err := filepath.WalkDir(filepath.Join(suite.StateDir, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil // files come and go
			}
			if info, err := entry.Info(); err != nil || info.Size() > 4<<20 {
				return nil
			}
			if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, accessMark) {
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func csr(t *testing.T, user, group string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: []string{group}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// claim asks the scheduler for the certificates of a node, with new keys.
func claim(t *testing.T, token, agentID, node string, shown ...tls.Certificate) (int, string) {
	t.Helper()
	body, err := json.Marshal(messages.CredentialsRequest{
		Version: messages.CredentialsVersion, Token: token, AgentID: agentID, ExecutorID: messages.ExecutorID, Node: node,
		KubeletCSR:  csr(t, messages.KubeletUserPrefix+node, messages.KubeletsGroup),
		ExecutorCSR: csr(t, messages.ExecutorUserPrefix+node, messages.ExecutorsGroup),
	})
	if err != nil {
		t.Fatal(err)
	}
	// Who the scheduler is does not matter here.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: shown}}}
	defer client.CloseIdleConnections()
	response, err := client.Post(schedulerURL+messages.CredentialsPath, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it was read
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func running(t *testing.T, name, node string) *corev1.Pod {
	t.Helper()
	suite.Create(t, cluster.OnNode(cluster.NewPod(name, cluster.Steady), node))
	return suite.WaitPhase(t, name, corev1.PodRunning)
}

// The executors' certificates come by token. No token stays anywhere on the agent, and nobody gets certificates who has
// none, or another node's certificate.
func TestTokens(t *testing.T) {
	first, other := running(t, "first", node1), running(t, "other", node2)
	agent1, agent2 := first.Annotations[messages.AnnotationAgentID], other.Annotations[messages.AnnotationAgentID]
	for _, agent := range []string{"1", "2"} {
		record := pki(agent, "scheduler.json")
		if files := onDisk(t, agent); len(files) != 1 || files[0] != record {
			t.Errorf("the scheduler's access is in %v, want it in %s alone", files, record)
		}
		if text, err := os.ReadFile(record); err != nil || bytes.Contains(text, []byte("token")) {
			t.Errorf("%s holds a token (%v): %s", record, err, text)
		}
	}
	own, err := tls.LoadX509KeyPair(pki("2", "executor.pem"), pki("2", "executor.pem"))
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := tls.LoadX509KeyPair(pki("1", "kubelet.pem"), pki("1", "kubelet.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, token, agentID, node string
		shown                      []tls.Certificate
		want                       int
	}{
		{"nothing", "", agent1, node1, nil, http.StatusForbidden},
		{"a token that nobody gave", "AAAA", agent1, node1, nil, http.StatusForbidden},
		{"the executor of another node", "", agent1, node1, []tls.Certificate{own}, http.StatusForbidden},
		{"the kubelet", "", agent1, node1, []tls.Certificate{kubelet}, http.StatusForbidden},
		{"an agent without an executor", "", "nobody", node2, []tls.Certificate{own}, http.StatusForbidden},
		{"another agent's id", "", agent1, node2, []tls.Certificate{own}, http.StatusForbidden},
		// And a proof that it is not all refused: this is how node 2 renews.
		{"its own certificate", "", agent2, node2, []tls.Certificate{own}, http.StatusOK},
	} {
		if got, text := claim(t, c.token, c.agentID, c.node, c.shown...); got != c.want {
			t.Errorf("%s: %d %s, want %d", c.what, got, text, c.want)
		}
	}
}

// serial is the number of the certificate in a file.
func serial(file string) (string, error) {
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		return "", err
	}
	return pair.Leaf.SerialNumber.String(), nil
}

// served is the number of the certificate that the kubelet of agent 1 answers with.
func served(ctx context.Context) (string, error) {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // which one is asked, not whether it is good
	conn, err := dialer.DialContext(ctx, "tcp", "10.89.0.11:10250")
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// Certificates are renewed under a running pod: new numbers in all three files, again and again; the kubelet answers with
// the new one, the API server takes it, the pod is not touched, and the next one starts.
func TestRotation(t *testing.T) {
	pod := running(t, "steady", node1)
	files := []string{pki("1", "executor.pem"), pki("1", "kubelet.pem"), pki("1", "serving.pem")}
	seen := map[string]bool{}
	for range 2 {
		before := map[string]string{}
		for _, file := range files {
			number, err := serial(file)
			if err != nil {
				t.Fatal(err)
			}
			before[file], seen[number] = number, true
		}
		cluster.Eventually(t, "new certificates", func(context.Context) error {
			for file, old := range before {
				if now, err := serial(file); err != nil || now == old {
					return fmt.Errorf("%s is number %s as before, %w", file, now, err)
				}
			}
			return nil
		})
	}
	cluster.Eventually(t, "the kubelet to answer with a new certificate", func(ctx context.Context) error {
		number, err := served(ctx)
		if err == nil && seen[number] && len(seen) > 3 {
			err = fmt.Errorf("it answers with number %s", number)
		}
		return err
	})
	suite.SameContainer(t, pod)
	if log := suite.Kubectl(t, "logs", "steady", "--tail=1"); log != "" {
		t.Errorf("the pod says %q", log)
	}
	running(t, "later", node1)
}
