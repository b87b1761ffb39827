package e2e

import (
	"context"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mesopod/mesopod/test/cluster"
)

// suite is the cluster of all tests here: two agents with attributes of each type, everything else as by default.
var suite = cluster.New(cluster.Options{Name: "e2e", Agents: 2, AgentFlags: []string{"attributes=keys:[1000-1500,2000-2010];weight:2.5"}})

func TestMain(m *testing.M) {
	os.Exit(cluster.Suite{
		Cluster: suite, Started: func() { client = suite.Client },
		Afterwards: killAndReset, AfterwardsName: "NothingLeftAfterKillAndReset",
	}.Run(m))
}

// What the tests here say all the time, in short.
type (
	task   = cluster.Task
	output = cluster.Output
)

const (
	masterURL    = cluster.MasterURL
	defaultLimit = cluster.Limit
	nodeName     = "mesopod-agent1" // the node of tests that need a certain one
	namespace    = cluster.Namespace
	web          = cluster.Web
	steady       = cluster.Steady

	executorWords = cluster.ExecutorWords
	keeperWords   = cluster.KeeperWords
)

var (
	stateDir  = suite.StateDir
	bundleDir = cluster.BundleDir()
	mesosDir  = cluster.MesosDir()
	// agentURLs are the agents of the cluster, by the names of their nodes.
	agentURLs = map[string]string{nodeName: suite.AgentURL(nodeName), "mesopod-agent2": suite.AgentURL("mesopod-agent2")}
	// ofFirst is in the environment of the processes of the first agent's executor alone.
	ofFirst = suite.OfAgent(1)
	// client is an administrator's client of the cluster.
	client kubernetes.Interface

	poll        = cluster.Poll
	eventually  = cluster.Eventually
	mesopod     = cluster.Mesopod
	kubeconfig  = suite.Kubeconfig
	kubectl     = suite.Kubectl
	newPod      = cluster.NewPod
	onNode      = cluster.OnNode
	requests    = cluster.Requests
	describe    = cluster.Describe
	unscheduled = cluster.Unscheduled
	seconds     = cluster.Seconds
	create      = suite.Create
	deletePod   = suite.DeletePod
	waitPod     = suite.WaitPod
	waitPhase   = suite.WaitPhase
	waitLog     = suite.WaitLog
	logs        = suite.Logs
	get         = cluster.Get
	request     = cluster.Request
	tasksOf     = suite.TasksOf
	waitTask    = suite.WaitTask
	sandbox     = suite.Sandbox
	readFile    = suite.ReadFile
	mounts      = cluster.Mounts

	eventReasons  = suite.EventReasons
	partPID       = suite.PartPID
	killPart      = suite.KillPart
	sameContainer = suite.SameContainer
)

// killAndReset kills a cluster with a running pod on each agent, again and again: the next start, which may have fewer
// agents, has to clean up behind each, reset behind the last.
func killAndReset() error {
	for _, agents := range []int{2, 1, 2} {
		suite.Agents = agents
		if err := suite.Start(); err != nil {
			return err
		}
		client = suite.Client
		for n := 1; n <= agents; n++ {
			if err := startOrphan(suite.Node(n)); err != nil {
				return errors.Join(err, suite.Stop())
			}
		}
		if err := suite.Kill(); err != nil {
			return err
		}
	}
	return suite.Reset()
}

// startOrphan runs a pod on a node.
func startOrphan(node string) error {
	ctx, cancel := context.WithTimeout(context.Background(), defaultLimit)
	defer cancel()
	pod := onNode(newPod("orphan-"+node, steady), node)
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		got, err := client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			err = errors.New(describe(got))
		}
		return err
	})
}
