package messages

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// StaticPod is a pod that every executor's kubelet runs by itself: no scheduler places it (ADR 035).
type StaticPod struct {
	// Manifest is the pod as it was written, Pod the same with its namespace filled in.
	Manifest json.RawMessage
	Pod      *corev1.Pod
	// Claim is the pod's name and a digest of all that it takes from an agent: "<namespace>/<name>@<8 hexadecimal digits>". A
	// placeholder task accounts for claims, so a pod with another image needs no other task, and one with another request
	// does.
	Claim string
}

// Static reads the manifests of the document's static pods. Faults are of manifests that are passed over, each with its
// place and errdefs.ErrInvalid: the other pods run (EX-104).
func (c ExecutorConfig) Static() (pods []StaticPod, faults []error) {
	names := map[string]bool{}
	for i, manifest := range c.StaticPods {
		pod, err := readStaticPod(manifest)
		if err == nil && names[pod.Namespace+"/"+pod.Name] {
			err = fmt.Errorf("another one has the name %s/%s", pod.Namespace, pod.Name)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("staticPods[%d]: %w: %w", i, errdefs.ErrInvalid, err))
			continue
		}
		names[pod.Namespace+"/"+pod.Name] = true
		pods = append(pods, StaticPod{Manifest: manifest, Pod: pod, Claim: claimOf(pod)})
	}
	return pods, faults
}

func readStaticPod(manifest json.RawMessage) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	unknown, err := strictjson.UnmarshalStrict(manifest, pod)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return nil, err
	}
	var faults []error
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		faults = append(faults, fmt.Errorf("it is a %q of %q, want a Pod of v1", pod.Kind, pod.APIVersion))
	}
	if pod.Name == "" {
		faults = append(faults, errors.New("metadata.name is empty"))
	}
	if pod.UID != "" || pod.Spec.NodeName != "" {
		faults = append(faults, errors.New("metadata.uid and spec.nodeName are each node's own: leave them out"))
	}
	if len(pod.Spec.Containers) == 0 {
		faults = append(faults, errors.New("spec.containers is empty"))
	}
	if pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux {
		faults = append(faults, fmt.Errorf("spec.os.name %q: the agents run linux", pod.Spec.OS.Name))
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if IsOurs(key) {
			faults = append(faults, fmt.Errorf("annotation %s is mesopod's: leave it out", key))
		}
	}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	return pod, errors.Join(faults...)
}

// claimOf digests what decides on a pod's share of the agent: requests, limits, overhead and host ports.
func claimOf(pod *corev1.Pod) string {
	type container struct {
		Resources corev1.ResourceRequirements
		Restart   *corev1.ContainerRestartPolicy
		HostPorts []int32
	}
	containers := func(of []corev1.Container) (all []container) {
		for _, c := range of {
			one := container{Resources: c.Resources, Restart: c.RestartPolicy}
			for _, port := range c.Ports {
				one.HostPorts = append(one.HostPorts, port.HostPort)
			}
			all = append(all, one)
		}
		return all
	}
	// None of these types has an encoder that can fail.
	text, _ := json.Marshal([]any{
		containers(pod.Spec.InitContainers), containers(pod.Spec.Containers), pod.Spec.Resources, pod.Spec.Overhead, pod.Spec.HostNetwork,
	})
	return fmt.Sprintf("%s/%s@%.4x", pod.Namespace, pod.Name, sha256.Sum256(text))
}

// placeholderPrefix begins the ids of placeholder tasks. ParseTaskID takes none of them for a pod's task.
const placeholderPrefix = "static-pods"

// PlaceholderID is the id of the task that accounts for the static pods of an agent: "static-pods.<key>.<number>.<agent>". The
// key tells what it accounts for, so a scheduler that has just started knows from the id alone whether it still fits.
func PlaceholderID(agentID, key string, number int64) string {
	return strings.Join([]string{placeholderPrefix, key, strconv.FormatInt(number, 10), agentID}, ".")
}

// ParsePlaceholderID reads the key out of a placeholder task's id; false for any other task's.
func ParsePlaceholderID(id string) (key string, ok bool) {
	parts := strings.SplitN(id, ".", 4)
	if len(parts) != 4 || parts[0] != placeholderPrefix || parts[1] == "" || parts[3] == "" {
		return "", false
	}
	_, err := strconv.ParseInt(parts[2], 10, 64)
	return parts[1], err == nil
}
