package core

import (
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/scheduler/tasks"
)

// onInverseOffers agrees to every maintenance, and tells the pods that run there. The operator decides when an agent goes; who
// wants pods moved before drains it.
func (c *Core) onInverseOffers(ev InverseOffers) {
	if !c.connected || len(ev.Offers) == 0 {
		c.note("", "inverse offers of a lost connection are ignored")
		return
	}
	ids := make([]string, len(ev.Offers))
	for i := range ev.Offers {
		ids[i] = ev.Offers[i].OfferID.Value
		c.tellMaintenance(&ev.Offers[i])
	}
	c.do(AcceptInverse{OfferIDs: ids, RefuseSeconds: longRefusal, Why: "operators decide on maintenances"})
}

// tellMaintenance says on the pods of an agent when it will be away.
func (c *Core) tellMaintenance(offer *mesos.InverseOffer) {
	id := offer.GetAgentID().GetValue()
	when := "from " + time.Unix(0, offer.Unavailability.Start.Nanoseconds).UTC().Format(time.RFC3339)
	if d := offer.Unavailability.Duration; d != nil {
		when += " for " + time.Duration(d.Nanoseconds).String()
	}
	for _, task := range c.tasks.Live(func(t *tasks.Task) bool { return t.AgentID == id }) {
		pod := c.pods[task.UID]
		if pod == nil || pod.Spec.NodeName == "" {
			continue
		}
		c.do(PodEvent{Pod: pod, Type: corev1.EventTypeWarning, Reason: "AgentMaintenance",
			Note: fmt.Sprintf("agent of node %s has a maintenance %s; drain it to move its pods", pod.Spec.NodeName, when)})
	}
}
