package kubelet

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// TestStaticPod proves EX-103: what the kubelet's own source of files would make of a manifest.
func TestStaticPod(t *testing.T) {
	manifest := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"log"},"spec":{"containers":[{"name":"main","image":"log"}]}}`)
	pod, err := StaticPod(manifest, "a1.example")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Name != "log-a1.example" || pod.Namespace != "default" || pod.Spec.NodeName != "a1.example" || pod.Annotations["kubernetes.io/config.hash"] != string(pod.UID) {
		t.Errorf("pod %+v", pod.ObjectMeta)
	}
	if pod.Spec.RestartPolicy != "Always" || *pod.Spec.TerminationGracePeriodSeconds != 30 {
		t.Errorf("defaults are missing: %+v", pod.Spec)
	}
	if len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0].Effect != "NoExecute" {
		t.Errorf("tolerations %v", pod.Spec.Tolerations)
	}
	again, err := StaticPod(manifest, "a1.example")
	other, err2 := StaticPod(manifest, "a2")
	if err != nil || err2 != nil || again.UID != pod.UID || other.UID == pod.UID {
		t.Errorf("UIDs %s, %s and of another node %s (%v, %v)", pod.UID, again.UID, other.UID, err, err2)
	}
}

// TestStaticPodRefused proves EX-104 for what only the kubelet's code knows.
func TestStaticPodRefused(t *testing.T) {
	for manifest, want := range map[string]string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"log"}}`:                                                                                                 "ConfigMap",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"log"},"spec":{"containers":[{"name":"UPPER","image":"log"}]}}`:                                                "default/log-a1",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"log"},"spec":{"containers":[{"name":"a","image":"b"}],"volumes":[{"name":"v","secret":{"secretName":"s"}}]}}`: "may not refer to secrets",
	} {
		if _, err := StaticPod(json.RawMessage(manifest), "a1"); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", manifest, err, want)
		}
	}
}
