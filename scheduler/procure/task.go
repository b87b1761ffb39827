package procure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// shutdownGrace is how long the agent lets the executor end its pods at a SHUTDOWN.
const shutdownGrace = 60 * time.Second

// Launch is one pod and where it goes.
type Launch struct {
	AgentID, Node string
	// OfferIDs are the offers of the ACCEPT.
	OfferIDs []string
	Attempt  int
	Pod      *corev1.Pod
	// Need is the pod's need on that agent (Need.On), Resources what was taken for it from the offers, all in Role.
	Need      Need
	Role      string
	Resources []mesos.Resource
	// Limits: the agent knows task limits.
	Limits bool
	// Executor is what the executor that runs on the agent was started with, or is to be started with.
	Executor *mesos.ExecutorInfo
}

// Task is the TaskInfo of a launch. The pod is not written to. The error is errdefs.ErrInvalid and names what does not
// fit into a launch.
func Task(cfg Config, l Launch) (mesos.TaskInfo, error) {
	id := messages.TaskID(l.Pod.UID, l.Attempt)
	pod := *l.Pod
	pod.Annotations = maps.Clone(pod.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, map[string]string{
		messages.AnnotationBindingHost: l.Node,
		messages.AnnotationTaskID:      id,
		messages.AnnotationAgentID:     l.AgentID,
		messages.AnnotationOfferID:     strings.Join(l.OfferIDs, ","),
		messages.AnnotationExecutorID:  messages.ExecutorID,
		messages.AnnotationRole:        l.Role,
	})
	if err := assignPorts(&pod, l.Need.Ports); err != nil {
		return mesos.TaskInfo{}, err
	}
	data, err := messages.EncodeLaunch(messages.Launch{TaskID: id, Node: l.Node, Pod: &pod, Bundle: cfg.Bundle.message()})
	if err != nil {
		return mesos.TaskInfo{}, fmt.Errorf("launch pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	name := messages.TaskName(pod.Namespace, pod.Name)
	task := mesos.TaskInfo{
		Name: name, TaskID: mesos.TaskID{Value: id}, AgentID: mesos.AgentID{Value: l.AgentID},
		Resources: l.Resources,
		Executor:  l.Executor,
		Labels:    labels(&pod),
		Discovery: discovery(name, &pod),
		Data:      data,
	}
	if l.Limits {
		task.Limits = limits(&pod, l.Need)
	}
	return task, nil
}

// Executor is the ExecutorInfo of an agent's tasks: nothing of the pod or the agent is in it but the resources that were
// taken for it from the agent's offers, and no secret.
func Executor(cfg Config, frameworkID string, resources []mesos.Resource) *mesos.ExecutorInfo {
	info := &mesos.ExecutorInfo{
		Type:        mesos.ExecutorInfo_CUSTOM,
		ExecutorID:  mesos.ExecutorID{Value: messages.ExecutorID},
		FrameworkID: &mesos.FrameworkID{Value: frameworkID},
		Name:        ptr("mesopod executor"),
		Source:      ptr("mesopod"),
		Command: &mesos.CommandInfo{
			Shell: ptr(true), Value: ptr("exec ./mesopod-keeper " + cfg.programs()),
			URIs: []mesos.CommandInfo_URI{{Value: cfg.KeeperURI, Executable: ptr(true), Extract: ptr(false)}},
		},
		Resources:           resources,
		ShutdownGracePeriod: &mesos.DurationInfo{Nanoseconds: shutdownGrace.Nanoseconds()},
	}
	if cfg.User != "" {
		info.Command.User = ptr(cfg.User)
	}
	return info
}

// Bundle is an archive of mesopod's programs that keepers bring into their host's cache.
type Bundle struct {
	// SHA256 names the archive; empty: agents have the programs in a folder.
	SHA256 string
	// Sources are where it can be had, the best first: folders on the agents and URLs of folders, in which its SHA-256 is
	// its name.
	Sources []string
	// CacheDir is the cache, on the agents.
	CacheDir string
}

func (b Bundle) message() *messages.Bundle {
	if b.SHA256 == "" {
		return nil
	}
	return &messages.Bundle{SHA256: b.SHA256, Sources: b.Sources}
}

// programs are the keeper's arguments that say what to run.
func (c Config) programs() string {
	if c.Bundle.SHA256 == "" {
		return "--bundle-dir=" + quote(c.BundleDir)
	}
	words := []string{"--bundle=" + c.Bundle.SHA256}
	for _, source := range c.Bundle.Sources {
		words = append(words, "--bundle-source="+quote(source))
	}
	return strings.Join(append(words, "--bundle-cache="+quote(c.Bundle.CacheDir)), " ")
}

// assignPorts writes onto the pod which ports of the host it has got of those that it takes, for the ports of its that are open.
func assignPorts(pod *corev1.Pod, taken offers.PortSet) error {
	open, err := messages.OpenPorts(pod)
	if err != nil {
		return fmt.Errorf("launch pod %s/%s: %w: %w", pod.Namespace, pod.Name, err, errdefs.ErrInvalid)
	}
	named := HostPorts(pod).All()
	free := slices.DeleteFunc(taken.All(), func(port uint16) bool { return slices.Contains(named, port) })
	if len(free) != len(open) {
		return fmt.Errorf("launch pod %s/%s: %d host ports for %d that it asks for: %w", pod.Namespace, pod.Name, len(free), len(open), errdefs.ErrInvalid)
	}
	for i, key := range open {
		pod.Annotations[key] = strconv.Itoa(int(free[i]))
	}
	return nil
}

// ExecutorShare is the executor's share in whole amounts, rounded up.
func ExecutorShare(cfg Config) offers.Amounts {
	return offers.Amounts{CPUs: int64(math.Ceil(round(cfg.Executor.CPUs) * 1000)), MemMB: int64(math.Ceil(cfg.Executor.MemMB))}
}

// quote makes a folder safe for the shell that runs the command; a plain one stays as it is.
func quote(path string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("/._-", r)
	}
	if path != "" && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// round keeps the three decimals that Mesos keeps.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// discovery tells Mesos-DNS and its like the pod's name and its ports, which answer on the pod's own address.
func discovery(name string, pod *corev1.Pod) *mesos.DiscoveryInfo {
	info := &mesos.DiscoveryInfo{Visibility: mesos.CLUSTER, Name: &name}
	var ports []mesos.Port
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			one := mesos.Port{Number: uint32(port.ContainerPort), Protocol: ptr(strings.ToLower(string(cmp.Or(port.Protocol, corev1.ProtocolTCP))))}
			if port.Name != "" {
				one.Name = ptr(port.Name)
			}
			ports = append(ports, one)
		}
	}
	if len(ports) > 0 {
		info.Ports = &mesos.Ports{Ports: ports}
	}
	return info
}

// labels tell an operator in Mesos' UI whose task it is: namespace, pod, uid, owner, and the pod's app labels.
func labels(pod *corev1.Pod) *mesos.Labels {
	list := &mesos.Labels{}
	add := func(key, value string) { list.Labels = append(list.Labels, mesos.Label{Key: key, Value: ptr(value)}) }
	add("namespace", pod.Namespace)
	add("pod", pod.Name)
	add("uid", string(pod.UID))
	if owner := metav1.GetControllerOf(pod); owner != nil {
		add("owner", owner.Kind+"/"+owner.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if key == "app" || strings.HasPrefix(key, "app.kubernetes.io/") {
			add(key, pod.Labels[key])
		}
	}
	return list
}

func ptr[T any](v T) *T { return &v }
