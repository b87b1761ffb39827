package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeletURL is where the API server, and everybody else, reaches the kubelet.
const kubeletURL = "https://10.89.0.11:10250"

// controlFile is a file of the control plane's.
func controlFile(names ...string) string {
	return filepath.Join(append([]string{stateDir, "control"}, names...)...)
}

// executorKubeconfig is the kubeconfig that the executor of nodeName made from what the scheduler gave it.
func executorKubeconfig() string { return filepath.Join(stateDir, "a1", "pki", "executor.kubeconfig") }

// Who may call the kubelet, the API server is asked: an executor's certificate is good there but gives no right to look
// at pods or to run something in them, not even on the executor's own node; without a certificate nobody is let in.
func TestKubeletPort(t *testing.T) {
	t.Parallel()
	create(t, onNode(newPod("guarded", steady), nodeName))
	waitPhase(t, "guarded", corev1.PodRunning)
	exec := "/exec/" + namespace + "/guarded/main?command=true&output=1"
	for _, c := range []struct {
		who, kubeconfig string
		method, path    string
		want            int
	}{
		{"nobody", "", http.MethodGet, "/pods", http.StatusUnauthorized},
		{"nobody", "", http.MethodPost, exec, http.StatusUnauthorized},
		{"the executor", executorKubeconfig(), http.MethodGet, "/pods", http.StatusForbidden},
		{"the executor", executorKubeconfig(), http.MethodPost, exec, http.StatusForbidden},
		{"the executor", executorKubeconfig(), http.MethodPost, "/run/" + namespace + "/guarded/main?cmd=true", http.StatusForbidden},
		{"the executor", executorKubeconfig(), http.MethodGet, "/containerLogs/" + namespace + "/guarded/main", http.StatusForbidden},
		{"the scheduler", controlFile("scheduler.kubeconfig"), http.MethodPost, exec, http.StatusForbidden},
		// And a proof that the door is there: an administrator passes it.
		{"the administrator", controlFile("admin.kubeconfig"), http.MethodGet, "/pods", http.StatusOK},
	} {
		config := &rest.Config{}
		if c.kubeconfig != "" {
			var err error
			config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig)
			if err == nil {
				err = rest.LoadTLSFiles(config)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := callKubelet(t, config, c.method, c.path); got != c.want {
			t.Errorf("%s: %s %s = %d, want %d", c.who, c.method, c.path, got, c.want)
		}
	}
}

// callKubelet calls the kubelet with the certificate of a kubeconfig, if it has one, and returns the status.
func callKubelet(t *testing.T, config *rest.Config, method, path string) int {
	t.Helper()
	// The test asks what the kubelet lets in, not who it is.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	if len(config.CertData) > 0 {
		pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
		if err != nil {
			t.Fatal(err)
		}
		client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	request, err := http.NewRequestWithContext(t.Context(), method, kubeletURL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // nothing is read from it
	return response.StatusCode
}

// needle is a text that must not be found.
type needle struct {
	what string
	text []byte
}

// needles are what secrets look like, and the very secrets of this cluster.
func needles(t *testing.T) []needle {
	t.Helper()
	all := []needle{
		{"a PEM private key", []byte("PRIVATE KEY-----")},
		{"a private key in base64", []byte("LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS")},
		{"a private key in base64", []byte("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS")},
		{"a key in a kubeconfig", []byte("client-key-data")},
		{"a JSON web token", []byte("eyJhbGciOi")},
	}
	keys, err := filepath.Glob(controlFile("pki", "*.key"))
	if err != nil || len(keys) < 4 {
		t.Fatalf("the cluster's keys are %v (%v), want more", keys, err)
	}
	made, err := filepath.Glob(filepath.Join(filepath.Dir(executorKubeconfig()), "*.pem"))
	if err != nil || len(made) != 3 {
		t.Fatalf("the executor's keys are %v (%v), want three", made, err)
	}
	for _, file := range append(keys, made...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		block, rest := pem.Decode(data)
		for block != nil && !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			block, rest = pem.Decode(rest)
		}
		if block == nil {
			t.Fatalf("%s has no key", file)
		}
		// The first bytes of all keys are the same; these are the secret. Texts keep lines of 64 letters, or none.
		body := base64.StdEncoding.EncodeToString(block.Bytes)
		all = append(all, needle{"the key " + filepath.Base(file), []byte(body[16:60])},
			needle{"the raw key " + filepath.Base(file), block.Bytes[12:36]})
	}
	return all
}

// accessNeedles are what the access in a launch envelope looks like, token and all, as it is and in base64.
func accessNeedles() []needle {
	const what, mark = "the access of a launch", `"keySHA256":"`
	all := []needle{{what, []byte(mark)}}
	for before := range 3 { // where it begins decides on the letters
		text := base64.StdEncoding.EncodeToString([]byte("xx"[:before] + mark))
		all = append(all, needle{what + " in base64", []byte(text[4 : len(text)-4])})
	}
	return all
}

// search tells which needles are in the text.
func search(all []needle, text []byte) (found []string) {
	for _, n := range all {
		if bytes.Contains(text, n.text) {
			found = append(found, n.what)
		}
	}
	return found
}

// What many people and programs can read holds no secret: Mesos' state, sandboxes and what Mesos keeps on disk, logs,
// command lines and environments.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	const value, key = "swordfish-7f3a91", "password"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, StringData: map[string]string{key: value}}
	if _, err := client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Secrets(namespace).Delete(context.WithoutCancel(t.Context()), "kept", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	pod := newPod("confidant", `[ "$PASSWORD" = "$(cat /secret/password)" ] && echo has it; `+steady)
	container := &pod.Spec.Containers[0]
	container.Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "kept"}, Key: key}}}}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "secret", MountPath: "/secret"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "kept"}}}}
	create(t, onNode(pod, nodeName))
	running := waitPhase(t, "confidant", corev1.PodRunning)
	waitTask(t, running, "TASK_RUNNING")
	waitLog(t, "confidant", "has it")

	all := append(needles(t), needle{"the pod's secret", []byte(value)}, needle{"the pod's secret in base64",
		[]byte(base64.StdEncoding.EncodeToString([]byte(value))[:18])})
	all = append(all, accessNeedles()...)
	// The search finds them where they are.
	known, err := os.ReadFile(filepath.Join(filepath.Dir(executorKubeconfig()), "executor.pem"))
	if err != nil || len(search(all, known)) < 2 {
		t.Fatalf("nothing is found in a file of keys (%v)", err)
	}
	// Each place names something that is surely in it, or the search would be of something else.
	for place, look := range map[string]struct {
		read func(*testing.T) map[string][]byte
		has  string
	}{
		"state":       {mesosState, string(running.UID)},
		"disk":        {func(t *testing.T) map[string][]byte { return below(t, filepath.Join(stateDir, "agent1", "work")) }, string(running.UID)},
		"logs":        {func(t *testing.T) map[string][]byte { return below(t, filepath.Join(stateDir, "logs")) }, string(running.UID)},
		"environment": {processes, "MESOPOD_EXECUTOR_CONFIG"},
	} {
		t.Run(place, func(t *testing.T) {
			seen := false
			for name, text := range look.read(t) {
				for _, what := range search(all, text) {
					t.Errorf("%s holds %s", name, what)
				}
				seen = seen || bytes.Contains(text, []byte(look.has))
			}
			if !seen {
				t.Errorf("%s is nowhere in it: this is not what was to be searched", look.has)
			}
		})
	}
}

// mesosState is all that master and agent tell of themselves.
func mesosState(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	read := func(name string, request *http.Request, err error) {
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer func() { _ = response.Body.Close() }() // it was read
		if found[name], err = io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s: %v", name, response.Status, err)
		}
	}
	for _, path := range []string{masterURL + "/master/state", masterURL + "/master/tasks", masterURL + "/master/flags",
		agentURLs[nodeName] + "/state", agentURLs[nodeName] + "/containers", agentURLs[nodeName] + "/flags"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		read(path, request, err)
	}
	for _, server := range []string{masterURL, agentURLs[nodeName]} {
		for _, call := range []string{"GET_STATE", "GET_FLAGS"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/api/v1", strings.NewReader(fmt.Sprintf(`{"type":%q}`, call)))
			if err == nil {
				request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
			}
			read(server+" "+call, request, err)
		}
	}
	return found
}

// below are all files in a folder and the folders in it.
func below(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) || err == nil && !entry.Type().IsRegular() {
			return nil // what other tests do goes on meanwhile
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		found[path] = data
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// processes are the command lines and environments of the cluster's processes.
func processes(t *testing.T) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, e := range entries {
		// What cannot be read has ended, or is no process.
		command, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		environment, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if bytes.Contains(environment, []byte("MESOPOD_LOCAL="+stateDir)) {
			found["process "+e.Name()+" "+string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))] = append(command, environment...)
		}
	}
	return found
}

// Whatever holds a key below the state folder, its owner alone may read it, and look into the folder that it is in.
func TestKeyModes(t *testing.T) {
	t.Parallel()
	create(t, onNode(newPod("keyed", steady), nodeName))
	waitPhase(t, "keyed", corev1.PodRunning)
	found := 0
	err := filepath.WalkDir(stateDir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil // what other tests do goes on meanwhile
		case err != nil:
			return err
		case entry.IsDir() && strings.Contains(path, "/containerd"):
			return fs.SkipDir // what is in images is as it was there
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Size() > 1<<20 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("PRIVATE KEY-----")) && !bytes.Contains(text, []byte("client-key-data")) {
			return nil
		}
		found++
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s holds a key and has mode %v, want 0600", path, info.Mode())
		}
		return nil
	})
	if err != nil || found < 8 {
		t.Errorf("%d files with keys are found, %v, want more", found, err)
	}
}
