//go:build !agent

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/cmd/internal/local"
	"github.com/mesopod/mesopod/scheduler/web"
)

// statusPort is where a scheduler shows itself unless it is told otherwise.
const statusPort = "10246"

// planFlags are those of plan.
type planFlags struct {
	files                                    []string
	kubeconfig, namespace, scheduler, output string
}

func newPlanCommand() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Tell where the pods of a file could be placed, and why not elsewhere; nothing is changed",
		Long: `Tell where the pods of a file could be placed, and why not elsewhere; nothing is changed.

Each Pod of the file, and one pod of each Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or
ReplicationController, is shown to the API server in a dry run, which fills in defaults and refuses what is wrong, and
then to the scheduler, which asks its filters about each agent. Agents whose offers were declined, since no pod waits,
are judged by what Mesos says is free on them (OFFER expected).

The exit code is 0 if each pod fits somewhere, 6 if one fits nowhere or is held back, 2 for a file with a fault, 1 else.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, f) },
	}
	set := c.Flags()
	set.StringArrayVarP(&f.files, "filename", "f", nil, "file with objects as YAML or JSON, several documents too; - is standard input; may be given several times")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default as mesopod kubectl)")
	set.StringVarP(&f.namespace, "namespace", "n", "", "namespace of objects that name none (default the kubeconfig's)")
	set.StringVar(&f.scheduler, "scheduler", "", "URL of the scheduler's page (default the local cluster's, else http://127.0.0.1:"+statusPort+")")
	set.StringVarP(&f.output, "output", "o", "", "json: one list of plans")
	return c
}

// runPlan plans all pods of the files, or none: faults of files are told before anything is asked.
func runPlan(cmd *cobra.Command, f planFlags) error {
	if f.output != "" && f.output != "json" {
		return cli.Usagef("plan: -o %s: want json", f.output)
	}
	if len(f.files) == 0 {
		return cli.Usagef("plan: no file; name one with -f")
	}
	client, config, namespace, err := f.connect()
	if err != nil {
		return err
	}
	if f.namespace != "" {
		namespace = f.namespace
	}
	var pods []*corev1.Pod
	var faults []error
	for _, name := range f.files {
		found, err := readPods(name, cmd.InOrStdin(), namespace)
		pods, faults = append(pods, found...), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return cli.Usage(fmt.Errorf("plan: %w", err))
	}
	if len(pods) == 0 {
		return cli.Usagef("plan: no object in %s", strings.Join(f.files, ", "))
	}
	plans := []web.Plan{}
	for _, pod := range pods {
		p, err := planOne(cmd.Context(), client, f.schedulerURL(config), pod)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	return f.print(cmd.OutOrStdout(), plans)
}

// connect reaches the API server: that of --kubeconfig, of $KUBECONFIG, of the local cluster, or kubectl's default, the first
// there is.
func (f *planFlags) connect() (kubernetes.Interface, *rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if rules.ExplicitPath = f.kubeconfig; f.kubeconfig == "" && os.Getenv("KUBECONFIG") == "" {
		if _, err := os.Stat(local.DefaultKubeconfig); err == nil {
			rules.ExplicitPath = local.DefaultKubeconfig
		}
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, nil, "", cli.Usage(fmt.Errorf("plan: kubeconfig: %w", err))
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, nil, "", cli.Usage(fmt.Errorf("plan: kubeconfig: %w", err))
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, "", cli.Usage(fmt.Errorf("plan: kubeconfig: %w", err))
	}
	return client, config, namespace, nil
}

// schedulerURL is the scheduler's page. A local cluster has it where its API server is.
func (f *planFlags) schedulerURL(config *rest.Config) string {
	if f.scheduler != "" {
		return f.scheduler
	}
	host := "127.0.0.1"
	if is, err := clientcmd.LoadFromFile(local.DefaultKubeconfig); err == nil {
		for _, cluster := range is.Clusters {
			if address, err := url.Parse(cluster.Server); err == nil && cluster.Server == config.Host {
				host = address.Hostname()
			}
		}
	}
	return "http://" + net.JoinHostPort(host, statusPort)
}

// planOne shows a pod to the API server, in a dry run, and then to the scheduler.
func planOne(ctx context.Context, client kubernetes.Interface, scheduler string, pod *corev1.Pod) (plan web.Plan, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	name := pod.Namespace + "/" + pod.Name
	fail := func(format string, args ...any) (web.Plan, error) {
		return web.Plan{}, fmt.Errorf("plan pod %s: %w", name, fmt.Errorf(format, args...))
	}
	// Under a made-up name: one of the pod's own may be there already.
	ask := pod.DeepCopy()
	ask.GenerateName, ask.Name, ask.ResourceVersion, ask.UID = pod.Name+"-", "", "", ""
	full, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, ask, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return web.Plan{}, cli.Usage(fmt.Errorf("plan pod %s: the API server refuses it: %w", name, err))
	case err != nil:
		return fail("dry run on the API server: %w", err)
	}
	full.APIVersion, full.Kind, full.Name = "v1", "Pod", pod.Name
	body, err := json.Marshal(full)
	if err != nil {
		return fail("encode: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(scheduler, "/")+"/plan", bytes.NewReader(body))
	if err != nil {
		return web.Plan{}, cli.Usage(fmt.Errorf("plan: --scheduler: %w", err))
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fail("ask the scheduler; name its page with --scheduler: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fail("ask the scheduler: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("plan pod %s: %s", name, strings.TrimSpace(string(text)))
		if response.StatusCode == http.StatusUnprocessableEntity {
			return web.Plan{}, cli.WithCode(err, cli.ExitNotPlaced)
		}
		return web.Plan{}, err
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return fail("the answer of %s: %w", scheduler, err)
	}
	return plan, nil
}

// print shows plans, and is an error if a pod of them would not be placed.
func (f *planFlags) print(out io.Writer, plans []web.Plan) error {
	if f.output == "json" {
		text, err := json.MarshalIndent(plans, "", "  ")
		if err != nil {
			return fmt.Errorf("plan: encode: %w", err)
		}
		if _, err := fmt.Fprintf(out, "%s\n", text); err != nil {
			return err
		}
	}
	var unplaced []string
	for i := range plans {
		p := &plans[i]
		if p.Fits == 0 || p.Held != "" {
			unplaced = append(unplaced, p.Pod)
		}
		if f.output == "" {
			if err := printPlan(out, p); err != nil {
				return err
			}
		}
	}
	if len(unplaced) > 0 {
		return cli.WithCode(fmt.Errorf("plan: not placed now: %s", strings.Join(unplaced, ", ")), cli.ExitNotPlaced)
	}
	return nil
}

func printPlan(out io.Writer, p *web.Plan) error {
	needs := fmt.Sprintf("%g cpus, %d MB memory", p.Needs.CPUs, p.Needs.MemMB)
	if p.Needs.DiskMB > 0 {
		needs += fmt.Sprintf(", %d MB disk", p.Needs.DiskMB)
	}
	if p.Needs.GPUs > 0 {
		needs += fmt.Sprintf(", %d gpus", p.Needs.GPUs)
	}
	for _, port := range p.Ports {
		needs += fmt.Sprintf(", host port %d", port)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "pod %s needs %s\n", p.Pod, needs)
	fmt.Fprintln(table, "NODE\tFITS\tOFFER\tWHY NOT")
	for _, row := range p.Agents {
		fits := "no"
		if row.Fits {
			fits = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.Node, fits, row.Offer, row.Why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	verdict := fmt.Sprintf("pod %s fits on %d of %d nodes", p.Pod, p.Fits, len(p.Agents))
	if p.Sentence != "" {
		verdict += ": " + p.Sentence
	}
	if p.Held != "" {
		verdict += "; held back: " + p.Held
	}
	_, err := fmt.Fprintf(out, "%s\n\n", verdict)
	return err
}
