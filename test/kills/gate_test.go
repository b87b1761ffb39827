package kills

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	admission "k8s.io/api/admission/v1"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// hold is the webhook that all bindings pass. It keeps those of pods whose name begins with "launching" until their gate
// is opened.
var hold = &gate{held: map[string]bool{}, open: map[string]chan struct{}{}}

type gate struct {
	mu sync.Mutex
	// held are the pods whose binding has come; open are closed to let it pass.
	held map[string]bool
	open map[string]chan struct{}
}

const probe = "launching-probe"

// start registers the webhook and returns when the API server asks it.
func (g *gate) start() error {
	server := httptest.NewTLSServer(g)
	url := server.URL + "/"
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	never, scope, seconds := admissionregistration.SideEffectClassNone, admissionregistration.NamespacedScope, int32(30)
	fail := admissionregistration.Ignore
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Limit)
	defer cancel()
	_, err := suite.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistration.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hold"},
		Webhooks: []admissionregistration.ValidatingWebhook{{
			Name: "hold.kills.mesopod.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &never, TimeoutSeconds: &seconds, FailurePolicy: &fail,
			ClientConfig: admissionregistration.WebhookClientConfig{URL: &url, CABundle: authority},
			Rules: []admissionregistration.RuleWithOperations{{
				Operations: []admissionregistration.OperationType{admissionregistration.Create},
				Rule: admissionregistration.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding", "configmaps"}, Scope: &scope,
				},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	g.let(probe)
	return cluster.Poll(ctx, func(ctx context.Context) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: probe}}
		_, err := suite.Client.CoreV1().ConfigMaps(cluster.Namespace).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && !g.has(probe) {
			err = errors.New("the API server does not ask the webhook yet")
		}
		return err
	})
}

func (g *gate) has(pod string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[pod]
}

// gateOf is closed once the pod's binding may pass.
func (g *gate) gateOf(pod string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[pod] == nil {
		g.open[pod] = make(chan struct{})
	}
	return g.open[pod]
}

// let opens the gate for a pod, for ever.
func (g *gate) let(pod string) { close(g.gateOf(pod)) }

// ServeHTTP answers the API server.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admission.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
		return
	}
	if pod := review.Request.Name; strings.HasPrefix(pod, "launching") {
		g.mu.Lock()
		g.held[pod] = true
		g.mu.Unlock()
		select {
		case <-g.gateOf(pod):
		case <-r.Context().Done():
			return
		case <-time.After(time.Minute): // the API server has given up before
		}
	}
	review.Response = &admission.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server may be gone
}
