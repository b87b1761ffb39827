package core_test

import (
	"fmt"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// BenchmarkOffers: each round an offer of each of 10,000 agents comes from the wire, 100 in a message, and is held, shown to
// kube-scheduler and declined when its time is over.
func BenchmarkOffers(b *testing.B) {
	const agents, together = 10_000, 100
	c, now := core.New(core.Config{}), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	answers := []core.Event{core.Subscribed{FrameworkID: "fw"}, core.PodsSynced{}}
	declined, shown := 0, 0
	registered := map[string]string{}
	for i := range agents {
		registered[fmt.Sprint("agent-", i)] = fmt.Sprint("host-agent-", i)
	}
	step := func(ev core.Event) {
		answers = append(answers, ev)
		for len(answers) > 0 {
			ev, answers = answers[0], answers[1:]
			for _, effect := range c.Step(now, ev) {
				switch e := effect.(type) {
				case core.StoreFrameworkID:
					answers = append(answers, core.FrameworkIDStored{FrameworkID: e.FrameworkID})
				case core.Reconcile:
					if answer := markerAnswer(e); answer.Status.TaskID.Value != "" {
						answers = append(answers, answer)
					}
				case core.Survey:
					answers = append(answers, core.Surveyed{Complete: true, Registered: registered})
				case core.LookUpAgent:
					answers = append(answers, core.AgentFound{Agent: core.Agent{ID: e.AgentID, Hostname: "host-" + e.AgentID,
						Total: messages.Resources{CPUs: 8, MemMB: 16384}, Limits: true}})
				case core.StoreNode:
					answers = append(answers, core.NodeStored{Node: e.Node.Name, AgentID: e.Node.Annotations[messages.AnnotationAgentID]})
				case core.PoolChanged:
					for _, view := range e.Views {
						if view != nil {
							shown++
						}
					}
				case core.Decline:
					declined += len(e.OfferIDs)
				}
			}
		}
	}
	round := 0
	offerAll := func() {
		round++
		for first := 0; first < agents; first += together {
			var all []mesos.Offer
			for i := first; i < first+together; i++ {
				id := fmt.Sprint("agent-", i)
				all = append(all, offer(fmt.Sprintf("o%d-%d", round, i), id, "host-"+id, 8, 16384, false, "*"))
			}
			data, err := (&scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: all}}).Marshal()
			if err != nil {
				b.Fatal(err)
			}
			var event scheduler.Event
			if err := event.Unmarshal(data); err != nil {
				b.Fatal(err)
			}
			step(core.Offers{Offers: event.Offers.Offers})
		}
		now = now.Add(time.Minute)
		step(core.Tick{})
	}
	offerAll() // the nodes are stored
	declined, shown = 0, 0
	rounds := 0
	for b.Loop() {
		offerAll()
		rounds++
	}
	if declined != rounds*agents || shown != rounds*agents {
		b.Fatalf("of %d offers %d were shown and %d declined", rounds*agents, shown, declined)
	}
	b.ReportMetric(float64(rounds*agents)/b.Elapsed().Seconds(), "offers/s")
}
