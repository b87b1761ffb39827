package messages_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

const documentHead = "apiVersion: mesopod.io/v1alpha1\nkind: ExecutorConfig\n"

func TestExecutorConfig(t *testing.T) {
	c, err := messages.ParseExecutorConfig([]byte(documentHead))
	if err != nil {
		t.Fatal(err)
	}
	if c.KubeletPort != 10250 || c.LaunchGracePeriod.Duration != 5*time.Minute || c.SuicideTimeout.Duration != 20*time.Minute || c.ClusterDomain != "cluster.local" {
		t.Errorf("defaults %+v", c)
	}
	// EX-56, EX-91: 0 switches off and is no default.
	c, err = messages.ParseExecutorConfig([]byte(documentHead + `launchGracePeriod: 0s
suicideTimeout: 0s
clusterDNS: [10.0.0.10]
kubeletConfiguration: {evictionHard: {nodefs.available: 5%}, podPidsLimit: 100}
`))
	if err != nil || c.LaunchGracePeriod.Duration != 0 || c.SuicideTimeout.Duration != 0 || !strings.Contains(string(c.KubeletConfiguration), `"podPidsLimit":100`) {
		t.Errorf("%v, %+v", err, c)
	}
}

// Each fault is told with its place, and all of them at once.
func TestExecutorConfigFaults(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                   {"apiVersion and kind must be"},
		documentHead + "a: [":                {"yaml: line"},
		documentHead + "kubletPort: 1\n":     {`unknown field "kubletPort"`},
		documentHead + "kind: x\n":           {"already set"},
		documentHead + "kubeletPort: x\n":    {"kubeletPort"},
		documentHead + "kubeletPort: 70000":  {"kubeletPort 70000 is out of range"},
		documentHead + "suicideTimeout: -1s": {"must not be negative"},
		documentHead + "clusterDNS: [10.0.0.1, x]\nkubeletConfiguration: {cgroupRoot: /, maxPods: 7, podPidsLimit: 9}": {
			`clusterDNS[1] "x"`, "kubeletConfiguration.cgroupRoot is not to be set: the container that Mesos made", "kubeletConfiguration.maxPods"},
		documentHead + "kubeletConfiguration: {evictionSoft: {memory.available: 1Gi}}": {"kubeletConfiguration.evictionSoft.memory.available is not to be set"},
		documentHead + "kubeletConfiguration: [1]":                                     {"kubeletConfiguration is no object"},
		documentHead + "kubeletConfiguration: {clusterDNS: []}":                        {"of the document itself"},
		strings.Replace(documentHead, "v1alpha1", "v2", 1):                             {`not "mesopod.io/v2"`},
		documentHead + "# " + strings.Repeat("x", 1<<20):                               {"at most"},
	} {
		_, err := messages.ParseExecutorConfig([]byte(text))
		if !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%.60s: %v, want ErrInvalid", text, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.60s: %v does not tell of %s", text, err, part)
			}
		}
	}
}

func FuzzParseExecutorConfig(f *testing.F) {
	f.Add([]byte(documentHead + "kubeletConfiguration: {a: 1}\n"))
	f.Add([]byte(`{"apiVersion":"mesopod.io/v1alpha1","kind":"ExecutorConfig","clusterDNS":["::1"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := messages.ParseExecutorConfig(text); err != nil && !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
