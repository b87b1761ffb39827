package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/zpages"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// Plan is where a pod could be placed, and why not elsewhere: the answer to POST /plan.
type Plan struct {
	// Pod is namespace/name.
	Pod   string   `json:"pod"`
	Needs Amount   `json:"needs"`
	Ports []uint16 `json:"hostPorts,omitempty"`
	// Fits is on how many agents it fits.
	Fits   int       `json:"fits"`
	Agents []PlanRow `json:"agents"`
	// Sentence says why it fits nowhere, in the words of the pod's condition; empty if it fits somewhere.
	Sentence string `json:"sentence,omitempty"`
	// Held says why it would not even be tried now.
	Held string `json:"held,omitempty"`
}

// PlanRow is one agent of a plan.
type PlanRow struct {
	Node  string `json:"node"`
	Agent string `json:"agent,omitempty"`
	Fits  bool   `json:"fits"`
	// Offer is what the agent was judged by: one of the words below.
	Offer string `json:"offer"`
	Why   string `json:"why,omitempty"`
}

// What an agent is judged by.
const (
	// OfferHeld: offers that are held.
	OfferHeld = "held"
	// OfferExpected: what Mesos says is free there; it was not offered, or was declined while no pod waited.
	OfferExpected = "expected"
	// NoOffer: nothing is to be expected, as of an agent that is lost or deactivated.
	NoOffer = "none"
	// NoAgent: the node is no agent of this framework.
	NoAgent = "not an agent"
)

// AmountOf turns what the core counts in into what people read.
func AmountOf(a offers.Amounts) Amount { return amount(a) }

const (
	// planBytes bounds a pod that is sent; the API server takes half of it.
	planBytes = 3 << 20
	// planLimit bounds a plan: the master is asked, and every agent gone through.
	planLimit = 30 * time.Second
)

// plan answers POST /plan, whose body is a pod as JSON, as the API server returns it from a dry run.
func (p pages) plan(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, planBytes))
	if err != nil {
		zpages.Refuse(w, http.StatusRequestEntityTooLarge, "read pod: %v", err)
		return
	}
	var pod corev1.Pod
	if err := json.Unmarshal(body, &pod); err != nil {
		zpages.Refuse(w, http.StatusBadRequest, "decode pod: %v", err)
		return
	}
	if pod.Kind != "Pod" || pod.APIVersion != "v1" || len(pod.Spec.Containers) == 0 {
		zpages.Refuse(w, http.StatusBadRequest, "decode pod: want a v1 Pod with containers, got %q %q; mesopod plan makes one of what a file says", pod.APIVersion, pod.Kind)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), planLimit)
	defer cancel()
	plan, err := p.Plan(ctx, &pod)
	switch {
	case err == nil:
		zpages.JSON(w, plan)
	case errors.Is(err, errdefs.ErrInvalid):
		zpages.Refuse(w, http.StatusUnprocessableEntity, "%v", err)
	default:
		zpages.Refuse(w, http.StatusServiceUnavailable, "%v", err)
	}
}
