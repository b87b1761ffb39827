package messages

import (
	"encoding/json"
	"fmt"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// CredentialsVersion is the version of CredentialsRequest and Credentials that this build writes and reads.
const CredentialsVersion = 1

// CredentialsPath is where the scheduler takes a CredentialsRequest by POST, over TLS.
const CredentialsPath = "/v1/credentials"

// MaxCredentialsBytes bounds a request and its answer.
const MaxCredentialsBytes = 64 << 10

// The names and groups in the certificates of an executor: the executor itself, and its kubelet. The node's name follows
// the prefix.
const (
	ExecutorUserPrefix = "mesopod:executor:"
	ExecutorsGroup     = "mesopod:executors"
	KubeletUserPrefix  = "system:node:"
	KubeletsGroup      = "system:nodes"
)

// CredentialsRequest is an executor's request for its two client certificates.
type CredentialsRequest struct {
	Version int `json:"version"`
	// Token is the one-time token of the launch envelope. It is empty when the executor shows the certificate that it has.
	Token string `json:"token,omitempty"`
	// AgentID, ExecutorID and Node say who asks.
	AgentID    string `json:"agentID"`
	ExecutorID string `json:"executorID"`
	Node       string `json:"node"`
	// KubeletCSR and ExecutorCSR are certificate requests in PEM.
	KubeletCSR  []byte `json:"kubeletCSR"`
	ExecutorCSR []byte `json:"executorCSR"`
	// ServingCSR is one for the kubelet's own port; empty if the operator gave it a certificate.
	ServingCSR []byte `json:"servingCSR,omitempty"`
}

// Credentials answers a CredentialsRequest. The keys stay where they were made.
type Credentials struct {
	Version int `json:"version"`
	// Server is the API server's https URL, CA the PEM certificates of those who may vouch for it.
	Server string `json:"server"`
	CA     []byte `json:"ca"`
	// KubeletCertificate and ExecutorCertificate are in PEM.
	KubeletCertificate  []byte `json:"kubeletCertificate"`
	ExecutorCertificate []byte `json:"executorCertificate"`
	// ServingCertificate answers ServingCSR.
	ServingCertificate []byte `json:"servingCertificate,omitempty"`
	// ClientCA are the PEM certificates of those who may vouch for callers of the kubelet.
	ClientCA []byte `json:"clientCA,omitempty"`
	// RenewAfterSeconds is when new certificates are to be asked for at the latest; 0 leaves it to their life.
	RenewAfterSeconds int64 `json:"renewAfterSeconds,omitempty"`
}

// DecodeCredentialsRequest reads and checks a request. The error is errdefs.ErrInvalid and has no token in it.
func DecodeCredentialsRequest(data []byte) (CredentialsRequest, error) {
	var r CredentialsRequest
	if err := decodeCredentials("credentials request", data, &r, &r.Version); err != nil {
		return CredentialsRequest{}, err
	}
	if r.AgentID == "" || r.ExecutorID == "" || r.Node == "" || len(r.KubeletCSR) == 0 || len(r.ExecutorCSR) == 0 {
		return CredentialsRequest{}, fmt.Errorf("credentials request without agent, executor, node or a certificate request: %w", errdefs.ErrInvalid)
	}
	return r, nil
}

// DecodeCredentials reads and checks an answer. The error is errdefs.ErrInvalid.
func DecodeCredentials(data []byte) (Credentials, error) {
	var c Credentials
	if err := decodeCredentials("credentials", data, &c, &c.Version); err != nil {
		return Credentials{}, err
	}
	if c.Server == "" || len(c.CA) == 0 || len(c.KubeletCertificate) == 0 || len(c.ExecutorCertificate) == 0 {
		return Credentials{}, fmt.Errorf("credentials without server, CA or a certificate: %w", errdefs.ErrInvalid)
	}
	return c, nil
}

func decodeCredentials(what string, data []byte, into any, version *int) error {
	if len(data) > MaxCredentialsBytes {
		return fmt.Errorf("%s has %d bytes, at most %d are read: %w", what, len(data), MaxCredentialsBytes, errdefs.ErrInvalid)
	}
	// An error of the decoder may quote what it read.
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s is no JSON of its kind: %w", what, errdefs.ErrInvalid)
	}
	if *version != CredentialsVersion {
		return fmt.Errorf("%s has version %d, this build reads version %d: %w", what, *version, CredentialsVersion, errdefs.ErrInvalid)
	}
	return nil
}
