package messages

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// statusSelfLink is the self link that k8sm put into each status payload (EX-33).
const statusSelfLink = "/podstatusresult"

// PodStatusResult is the payload of a task status. Core v1 had this type until Kubernetes 1.36; the JSON is the same.
type PodStatusResult struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            corev1.PodStatus `json:"status,omitempty"`
}

// EncodeStatus is the data of a task status: the JSON of a PodStatusResult named by the pod's full name (EX-33, EX-51). With it a scheduler that failed over can link task and pod from replayed updates alone. Note that the
// master drops the data before it stores the status.
func EncodeStatus(namespace, pod string, status corev1.PodStatus) ([]byte, error) {
	result := PodStatusResult{
		TypeMeta:   metav1.TypeMeta{Kind: "PodStatusResult", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: PodFullName(namespace, pod)},
		Status:     status,
	}
	//lint:ignore SA1019 Kubernetes no longer sets self links; this one is a fixed part of k8sm's payload.
	result.SelfLink = statusSelfLink
	data, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("status payload of pod %s/%s: %w: %w", namespace, pod, errdefs.ErrInvalid, err)
	}
	return data, nil
}

// DecodeStatus reads a status payload. Its error is errdefs.ErrInvalid.
func DecodeStatus(data []byte) (*PodStatusResult, error) {
	var result PodStatusResult
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, fmt.Errorf("status payload: %w: %w", errdefs.ErrInvalid, err)
	}
	if result.Name == "" {
		return nil, fmt.Errorf("status payload: metadata.name is empty: %w", errdefs.ErrInvalid)
	}
	return &result, nil
}
