package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"github.com/mesopod/mesopod/test/cluster"
)

// storm makes trouble, one thing at a time, and mends it again.
type storm struct {
	cluster *cluster.Cluster
	rand    *rand.Rand
	// agents are those of the simulator by name.
	agents []string
	// real is how many of them run pods.
	real int
	say  func(format string, args ...any)
}

// faults are what links do, each for some seconds. An ACCEPT that arrives twice is not among them: TCP carries nothing twice, the
// scheduler repeats none, and a master calls tasks TASK_DROPPED then that it launched a moment before.
var faults = []string{
	`"link":"scheduler","kind":"drop","match":"UPDATE"`,
	`"link":"scheduler","kind":"drop","match":"ACKNOWLEDGE","calls":true`,
	`"link":"scheduler","kind":"duplicate","match":"UPDATE"`,
	`"link":"scheduler","kind":"reorder","match":"UPDATE"`,
	`"link":"scheduler","kind":"delay","delay":"700ms"`,
	`"link":"scheduler","kind":"truncate","count":1`,
	`"link":"scheduler","kind":"close","match":"ACCEPT","calls":true,"count":2`,
	`"link":"scheduler","kind":"status","match":"ACCEPT","code":503`,
	`"link":"scheduler","kind":"partition"`,
	`"link":"executor","kind":"drop","match":"ACKNOWLEDGED"`,
	`"link":"executor","kind":"duplicate","match":"LAUNCH"`,
	`"link":"executor","kind":"truncate","count":1`,
	`"link":"executor","kind":"close","match":"UPDATE","calls":true,"count":2`,
	`"link":"executor","kind":"status","match":"UPDATE","code":503`,
	`"link":"executor","kind":"delay","match":"LAUNCH","delay":"1s"`,
	`"link":"executor","kind":"partition"`,
}

// blow makes trouble of one kind, waits a while, and mends it. Only what cannot be ordered is an error.
func (s *storm) blow(ctx context.Context) error {
	while := time.Duration(200+s.rand.IntN(3000)) * time.Millisecond
	switch agent := s.agents[s.rand.IntN(len(s.agents))]; s.rand.IntN(8) {
	case 0:
		return s.both(ctx, while, "master", `{"action":"stop"}`, `{"action":"start","keep_registry":true}`)
	case 1:
		// Those that act pods out are no processes that could end.
		return s.both(ctx, while, "agents/"+s.agents[s.rand.IntN(s.real)], `{"action":"stop"}`, `{"action":"start"}`)
	case 2:
		return s.both(ctx, while, "agents/"+agent, `{"action":"cut"}`, `{"action":"mend"}`)
	case 3:
		return s.kill("scheduler", "", "scheduler --kubeconfig=")
	case 4:
		n := 1 + s.rand.IntN(s.real)
		return s.kill(fmt.Sprintf("executor of agent %d", n), s.cluster.OfAgent(n), cluster.ExecutorWords)
	default:
		fault := faults[s.rand.IntN(len(faults))]
		s.say("%s for %v", fault, while)
		if err := s.order(ctx, http.MethodPost, "faults", "{"+fault+"}"); err != nil {
			return err
		}
		sleep(ctx, while)
		return s.order(context.WithoutCancel(ctx), http.MethodDelete, "faults", "")
	}
}

// both orders something and, after a while, its opposite, whatever happened between.
func (s *storm) both(ctx context.Context, while time.Duration, what, first, then string) error {
	s.say("%s %s for %v", what, first, while)
	if err := s.order(ctx, http.MethodPost, what, first); err != nil {
		return err
	}
	sleep(ctx, while)
	return s.order(context.WithoutCancel(ctx), http.MethodPost, what, then)
}

// kill kills a process; its parent starts it again. One that is not there has been killed already, or has nothing to do.
func (s *storm) kill(name, variable string, words ...string) error {
	pid, err := s.cluster.PartPID(variable, words...)
	if err != nil {
		s.say("%s is not there to be killed", name)
		return nil
	}
	s.say("kill %s", name)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	return nil
}

func (s *storm) order(ctx context.Context, method, what, body string) error {
	var answer json.RawMessage
	if err := cluster.Request(ctx, method, cluster.MasterURL+"/sim/"+what, []byte(body), &answer); err != nil {
		return fmt.Errorf("order %s %s: %w", what, body, err)
	}
	return nil
}

// sleep ends early with its context.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
