package messages_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

func static(t *testing.T, manifests ...string) ([]messages.StaticPod, []error) {
	t.Helper()
	text := "apiVersion: mesopod.io/v1alpha1\nkind: ExecutorConfig\nstaticPods:\n"
	for _, m := range manifests {
		text += "- " + m + "\n"
	}
	config, err := messages.ParseExecutorConfig([]byte(text))
	if err != nil {
		t.Fatalf("a manifest is no fault of the document: %v", err)
	}
	return config.Static()
}

const staticPod = `{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: main, image: %s, resources: {requests: {cpu: %s}}, ports: [{containerPort: 80, hostPort: %d}]}]}}`

// TestStatic proves EX-103: the claim is the same for another image, and another one for another request or host port.
func TestStatic(t *testing.T) {
	pods, faults := static(t, fmt.Sprintf(staticPod, "a", "one", "100m", 80))
	if len(pods) != 1 || len(faults) > 0 || pods[0].Pod.Namespace != "default" || !strings.HasPrefix(pods[0].Claim, "default/a@") {
		t.Fatalf("%+v, %v", pods, faults)
	}
	for _, other := range []struct {
		image, cpu string
		port       int
		same       bool
	}{{"two", "100m", 80, true}, {"one", "200m", 80, false}, {"one", "100m", 81, false}} {
		changed, _ := static(t, fmt.Sprintf(staticPod, "a", other.image, other.cpu, other.port))
		if got := changed[0].Claim == pods[0].Claim; got != other.same {
			t.Errorf("%+v: claim %s after %s", other, changed[0].Claim, pods[0].Claim)
		}
	}
}

// TestStaticFaults proves EX-104: each bad manifest is told by its place, and the others are there.
func TestStaticFaults(t *testing.T) {
	good := fmt.Sprintf(staticPod, "a", "one", "100m", 80)
	pods, faults := static(t, "5", good, good,
		`{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {container: []}}`,
		`{apiVersion: apps/v1, kind: Pod, metadata: {uid: u, annotations: {k8s.mesosphere.io/taskId: x}}, spec: {os: {name: windows}}}`,
		fmt.Sprintf(staticPod, "c", "one", "100m", 82))
	if len(pods) != 2 || pods[1].Pod.Name != "c" {
		t.Errorf("pods %+v", pods)
	}
	want := []string{"staticPods[0]", "staticPods[2]", "staticPods[3]", "staticPods[4]"}
	var got []string
	for _, fault := range faults {
		place, _, _ := strings.Cut(fault.Error(), ":")
		got = append(got, place)
		if !errors.Is(fault, errdefs.ErrInvalid) {
			t.Errorf("%v is not ErrInvalid", fault)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, errors.Join(faults...))
	}
	for _, words := range []string{"the name default/a", `unknown field "spec.container"`, "want a Pod of v1", "metadata.name is empty", "metadata.uid", "windows", "taskId is mesopod's"} {
		if !strings.Contains(errors.Join(faults...).Error(), words) {
			t.Errorf("nothing tells of %q:\n%v", words, errors.Join(faults...))
		}
	}
}

// A placeholder's id tells its key, and is no id of a pod's task.
func TestPlaceholderID(t *testing.T) {
	id := messages.PlaceholderID("f-S1", "0a1b2c3d", 7)
	if key, ok := messages.ParsePlaceholderID(id); !ok || key != "0a1b2c3d" {
		t.Errorf("%s has key %q, %t", id, key, ok)
	}
	if _, _, err := messages.ParseTaskID(id); err == nil {
		t.Errorf("%s is a pod's task", id)
	}
	for _, other := range []string{"", "u.1", "static-pods", "static-pods.k.1", "static-pods.k.x.S1", "static-pods..1.S1", "static-pods.1"} {
		if _, ok := messages.ParsePlaceholderID(other); ok {
			t.Errorf("%q is taken for a placeholder", other)
		}
	}
}

// The envelope of a placeholder has no pod, and one of a pod no claims.
func TestPlaceholderEnvelope(t *testing.T) {
	data, err := messages.EncodeLaunch(messages.Launch{TaskID: "static-pods.k.1.S1", Node: "a1", StaticPods: []string{"default/a@01020304"}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "placeholder.json", data)
	launch, err := messages.DecodeLaunch(data)
	if err != nil || launch.Pod != nil || len(launch.StaticPods) != 1 {
		t.Errorf("%+v, %v", launch, err)
	}
	if _, err := messages.EncodeLaunch(messages.Launch{TaskID: "t", Node: "a1", StaticPods: []string{"x"}, Pod: samplePod()}); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("a pod and claims: %v", err)
	}
}
