package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

const (
	agents, realAgents = 12, 2
	// pods are there at a time; realShare is how many of a hundred have processes.
	pods, realShare = 200, 6
	realLabel       = "mesopod.test/real"
	actedLabel      = "k8s.mesosphere.io/attribute-simulated"
	// briefly is how long a storm is within `make test`.
	briefly = 20 * time.Second
)

var (
	suite      = cluster.New(cluster.Options{Name: "chaos", Mesos: "sim", Agents: agents, Flags: []string{fmt.Sprintf("--real-agents=%d", realAgents)}})
	everything = labels.Everything()
)

func TestMain(m *testing.M) { os.Exit(cluster.Suite{Cluster: suite}.Run(m)) }

// TestStorm: parts are killed and links break at random under pods that come and go. No law of history is broken meanwhile, and
// afterwards all pods come to where they belong: those with an end to it, the others Running, and each with its one task.
func TestStorm(t *testing.T) {
	length, seed := briefly, time.Now().UnixNano()
	var err error
	if text := os.Getenv("MESOPOD_CHAOS"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("MESOPOD_CHAOS: %v", err)
		}
	}
	if text := os.Getenv("MESOPOD_CHAOS_SEED"); text != "" {
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("MESOPOD_CHAOS_SEED: %v", err)
		}
	}
	t.Logf("MESOPOD_CHAOS_SEED=%d, for %v", seed, length)
	markReal(t)

	h := newHistory()
	lister, err := follow(t.Context(), suite, h)
	if err != nil {
		t.Fatal(err)
	}
	c := &churn{pods: suite.Client.CoreV1().Pods(cluster.Namespace), lister: lister, want: pods, real: realShare, rand: rand.New(rand.NewPCG(uint64(seed), 1))}
	s := &storm{cluster: suite, rand: rand.New(rand.NewPCG(uint64(seed), 2)), real: realAgents, say: t.Logf}
	for n := range agents {
		if n < realAgents {
			s.agents = append(s.agents, fmt.Sprintf("mesos-agent%d", n+1))
		} else {
			s.agents = append(s.agents, fmt.Sprintf("sim%d", n-realAgents+1))
		}
	}
	blows := rage(t, length, c, s, h)
	settle(t, lister)
	clear(t, lister)
	t.Logf("%d pods, %d blows, %d looks at tasks, %d at pods", c.made, blows, h.looks.tasks, h.looks.pods)
	for _, law := range h.verdict() {
		t.Error(law)
	}
}

// markReal labels the nodes whose pods have processes.
func markReal(t *testing.T) {
	for n := range realAgents {
		suite.Kubectl(t, "label", "node", suite.Node(n+1), realLabel+"=true")
	}
}

// rage has pods come and go while the storm blows, and looks at tasks all the time. It returns the number of blows.
func rage(t *testing.T, length time.Duration, c *churn, s *storm, h *history) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	blows := 0
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return every(ctx, time.Second, c.turn) })
	group.Go(func() error {
		return every(ctx, 500*time.Millisecond, func(ctx context.Context) error { blows++; return s.blow(ctx) })
	})
	group.Go(func() error { return every(ctx, 200*time.Millisecond, look(h)) })
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return blows
}

// every calls do and pauses, until the context ends.
func every(ctx context.Context, pause time.Duration, do func(context.Context) error) error {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		sleep(ctx, pause)
	}
	return nil
}

// look shows history the master's tasks. A master that is away has nothing to show.
func look(h *history) func(context.Context) error {
	return func(ctx context.Context) error {
		if all, err := suite.TasksNamed(ctx, ""); err == nil {
			h.tasks(all)
		}
		return nil
	}
}

// settle waits until each pod is where it belongs, and Mesos agrees.
func settle(t *testing.T, lister listers.PodLister) {
	t.Helper()
	cluster.Eventually(t, "the cluster to settle", func(ctx context.Context) error {
		all, err := lister.List(everything)
		if err != nil {
			return err
		}
		tasks, err := suite.TasksNamed(ctx, "")
		if err != nil {
			return err
		}
		live := map[string]string{}
		for _, one := range tasks {
			if !ends(one.State) {
				live[one.Name] += one.State + " "
			}
		}
		var wrong []error
		for _, pod := range all {
			name := pod.Name + "." + pod.Namespace + ".pod"
			running := live[name] == "TASK_RUNNING "
			over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if pod.DeletionTimestamp != nil || !over && (pod.Status.Phase != corev1.PodRunning || !running) || over && live[name] != "" {
				wrong = append(wrong, fmt.Errorf("pod %s, task %q: %s", pod.Name, live[name], cluster.Describe(pod)))
			}
			delete(live, name)
		}
		for name, states := range live {
			wrong = append(wrong, fmt.Errorf("task of %s is %s and has no pod", name, states))
		}
		return errors.Join(wrong...)
	})
}

// clear deletes all pods and waits until they and their tasks are gone.
func clear(t *testing.T, lister listers.PodLister) {
	t.Helper()
	if err := suite.Client.CoreV1().Pods(cluster.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "everything to be gone", func(ctx context.Context) error {
		all, err := lister.List(everything)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%d pods are left, such as %s: %s", len(all), all[0].Name, cluster.Describe(all[0]))
		}
		if err != nil {
			return err
		}
		tasks, err := suite.TasksNamed(ctx, "")
		for _, one := range tasks {
			if !ends(one.State) {
				return fmt.Errorf("task %s of %s is still %s", one.TaskID.Value, one.Name, one.State)
			}
		}
		return err
	})
}
