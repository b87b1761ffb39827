package kubelet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the scheme's knowledge of pods
	conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// StaticPod makes a pod of the configuration ready for this node, as the kubelet's own source of files does (EX-103): defaults
// filled in and checked, the node in its name, and a UID that is the same as long as manifest and node are, so that a
// restarted kubelet finds its containers again. The error is errdefs.ErrInvalid (EX-104).
func StaticPod(manifest json.RawMessage, node string) (*corev1.Pod, error) {
	object, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), manifest)
	if err != nil {
		return nil, fmt.Errorf("static pod: %w: %w", errdefs.ErrInvalid, err)
	}
	pod, ok := object.(*api.Pod)
	if !ok {
		return nil, fmt.Errorf("static pod: it is a %T: %w", object, errdefs.ErrInvalid)
	}
	fault := func(err error) error {
		return fmt.Errorf("static pod %s/%s: %w: %w", pod.Namespace, pod.Name, errdefs.ErrInvalid, err)
	}
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	digest := sha256.Sum256(append([]byte(node+"\n"), manifest...))
	pod.UID = types.UID(fmt.Sprintf("%x", digest[:16]))
	pod.Name += "-" + node
	pod.Spec.NodeName = node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	// The kubelet tells by it whether a mirror is still that of the pod.
	pod.Annotations[kubetypes.ConfigHashAnnotationKey] = string(pod.UID)
	// A node in trouble is no reason to end what belongs to the node.
	helper.AddOrUpdateTolerationInPod(pod, &api.Toleration{Operator: api.TolerationOpExists, Effect: api.TaintEffectNoExecute})
	pod.Status.Phase = api.PodPending

	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	if faults := validation.ValidatePodCreate(pod, options); len(faults) > 0 {
		return nil, fault(faults.ToAggregate())
	}
	// The API server would refuse the mirror, and the kubelet may not read what no pod of its node names.
	_, kind, err := podutil.HasAPIObjectReference(pod)
	if err == nil && kind != "" {
		err = fmt.Errorf("a static pod may not refer to %s", kind)
	}
	if err != nil {
		return nil, fault(err)
	}
	outside := &corev1.Pod{}
	if err := conversion.Convert_core_Pod_To_v1_Pod(pod, outside, nil); err != nil {
		return nil, fault(err)
	}
	return outside, nil
}
