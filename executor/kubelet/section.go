package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	versioned "k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	strictjson "sigs.k8s.io/json"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// CheckSection tells what a kubelet would find wrong with a section of the operator's, before one is started with it: a
// kubelet that ends takes all pods with it. The error is errdefs.ErrInvalid.
func CheckSection(section json.RawMessage) error {
	// Of what stands for the rest only its being valid matters.
	_, err := Config{
		Node: "node", NodeIP: "192.0.2.1", Port: 10250, RootDir: "/root", PodLogsDir: "/logs", RuntimeSocket: "/socket", CgroupRoot: "/group",
		Capacity: messages.Capacity{Cores: 1, MilliCPU: 1000, MemoryBytes: 1 << 30}, Section: section,
	}.configuration()
	return err
}

// overlay puts the fields of the operator's section over ours, and has upstream check the whole.
func overlay(k *kubeletconfig.KubeletConfiguration, section json.RawMessage) (*kubeletconfig.KubeletConfiguration, error) {
	if len(section) == 0 {
		return k, nil
	}
	var outside versioned.KubeletConfiguration
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(k, &outside, nil); err != nil {
		return nil, fmt.Errorf("kubelet defaults: %w", err)
	}
	fault := func(errs ...error) error {
		return fmt.Errorf("kubeletConfiguration: %w: %w", errdefs.ErrInvalid, errors.Join(errs...))
	}
	unknown, err := strictjson.UnmarshalStrict(section, &outside)
	if err != nil || len(unknown) > 0 {
		return nil, fault(append(unknown, err)...)
	}
	if (outside.APIVersion != "" || outside.Kind != "") && (outside.APIVersion != versioned.SchemeGroupVersion.String() || outside.Kind != "KubeletConfiguration") {
		return nil, fault(fmt.Errorf("it is a %s %s, want a %s KubeletConfiguration, or no kind", outside.APIVersion, outside.Kind, versioned.SchemeGroupVersion))
	}
	if on, named := outside.FeatureGates["PodsAPI"]; named && !on {
		return nil, fault(errors.New("featureGates.PodsAPI is what we see pods by: leave it on"))
	}
	var whole kubeletconfig.KubeletConfiguration
	if err := conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(&outside, &whole, nil); err != nil {
		return nil, fault(err)
	}
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gates.SetFromMap(whole.FeatureGates); err != nil {
		return nil, fault(err)
	}
	if err := validation.ValidateKubeletConfiguration(&whole, gates); err != nil {
		return nil, fault(err)
	}
	return &whole, nil
}

// openGates sets the section's feature gates for the process.
func openGates(gates featuregate.MutableFeatureGate, k *kubeletconfig.KubeletConfiguration) error {
	if err := gates.SetFromMap(k.FeatureGates); err != nil {
		return fmt.Errorf("kubeletConfiguration.featureGates: %w: %w", errdefs.ErrInvalid, err)
	}
	return nil
}
