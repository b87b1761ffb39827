package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mesopod/mesopod/test/cluster"
)

// configFile is what the scheduler serves; local mode wrote it.
func configFile() string { return filepath.Join(suite.StateDir, "executor-config.yaml") }

// pidsLimit is the kubelet's own word for a field of its configuration.
func pidsLimit(ctx context.Context, node string) (int64, error) {
	text, err := suite.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + node + "/proxy/configz").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	var configz struct {
		KubeletConfig struct{ PodPidsLimit int64 } `json:"kubeletconfig"`
	}
	err = json.Unmarshal(text, &configz)
	return configz.KubeletConfig.PodPidsLimit, err
}

func waitPidsLimit(t *testing.T, node string, want int64) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("the kubelet of %s to have podPidsLimit %d", node, want), func(ctx context.Context) error {
		got, err := pidsLimit(ctx, node)
		if err == nil && got != want {
			err = fmt.Errorf("it has %d", got)
		}
		return err
	})
}

// The executors' configuration is a document of the scheduler's. A change is taken over by a new executor, under the pods:
// their containers are the same. What is wrong is refused by its place, and nobody restarts for it; what no kubelet starts
// with is given up for what was before. An executor that comes while the scheduler is away lives by what it had.
func TestConfiguration(t *testing.T) {
	pod := running(t, "under", node1)
	document, err := os.ReadFile(configFile())
	if err != nil {
		t.Fatal(err)
	}
	write := func(more string) {
		t.Helper()
		if err := os.WriteFile(configFile(), append(document, more...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { write("") })
	first, err := suite.PartPID(suite.OfAgent(1), cluster.ExecutorWords)
	if err != nil {
		t.Fatal(err)
	}

	write("kubeletConfiguration: {podPidsLimit: 4321}\n")
	waitPidsLimit(t, node1, 4321)
	second, err := suite.PartPID(suite.OfAgent(1), cluster.ExecutorWords)
	if err != nil || second == first {
		t.Errorf("the executor is process %d, as before (%v)", second, err)
	}
	suite.SameContainer(t, pod)
	running(t, "after-change", node1)

	for fault, place := range map[string]string{
		"kubeletConfiguration: {podPidsLimit: 9, cgroupRoot: /}\n": "kubeletConfiguration.cgroupRoot is not to be set",
		"kubeletConfiguration: {podPidLimit: 9}\n":                 `unknown field \"podPidLimit\"`,
		"launchGrace: 1m\n": `unknown field \"launchGrace\"`,
	} {
		write(fault)
		cluster.Eventually(t, "the scheduler to refuse "+fault, func(context.Context) error {
			log, err := os.ReadFile(filepath.Join(suite.StateDir, "logs", "scheduler.log"))
			if err == nil && !strings.Contains(string(log), place) {
				err = errors.New("its log does not tell of " + place)
			}
			return err
		})
	}

	// What only the start of a kubelet can find wrong.
	write("kubeletConfiguration: {podPidsLimit: 77, allowedUnsafeSysctls: [vm.swappiness]}\n")
	stderr := filepath.Join(suite.Sandbox(t, node1), "stderr")
	cluster.Eventually(t, "the executor to go back to the configuration before", func(context.Context) error {
		log, err := os.ReadFile(stderr)
		if err == nil && !strings.Contains(string(log), "no kubelet lived by it; the one before is used") {
			err = errors.New("it does not say so")
		}
		return err
	})
	waitPidsLimit(t, node1, 4321)
	suite.SameContainer(t, pod)

	scheduler, err := suite.PartPID("", "scheduler --kubeconfig=")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(scheduler, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(scheduler, syscall.SIGCONT) }() // it may have been ended meanwhile
	suite.KillPart(t, suite.OfAgent(1), cluster.ExecutorWords)
	waitPidsLimit(t, node1, 4321)
	suite.SameContainer(t, pod)
}
