package archtest

import "fmt"

// The packages that decide and do nothing else.
var cores = []string{
	"messages",
	"scheduler/core", "scheduler/constraints", "scheduler/offers", "scheduler/procure", "scheduler/tasks", "scheduler/nodes", "scheduler/reconcile",
	"executor/core", "executor/ledger", "executor/network/plan", "executor/podstate", "executor/suicide",
}

// The packages of the two programs that act.
var shells = []string{
	"scheduler", "scheduler/bundle", "scheduler/credentials", "scheduler/kube", "scheduler/mesosconn", "scheduler/web",
	"executor", "executor/agentconn", "executor/binder", "executor/credentials", "executor/kubelet", "executor/network", "executor/poller", "executor/proxy", "executor/runtime",
	"executor/statedir", "executor/store", "executor/vm/...", "executor/web",
}

const mesosLib = "github.com/mesos/mesos-go/api/v1/lib/"

var (
	// mesosTransport is what carries Mesos' messages.
	mesosTransport = []string{
		mesosLib + "client/...", mesosLib + "encoding/...", mesosLib + "httpcli/...", mesosLib + "recordio/...",
		mesosLib + "scheduler/calls/...", mesosLib + "executor/calls/...", mesosLib + "master/calls/...", mesosLib + "agent/calls/...",
		mesosLib + "extras/...", mesosLib + "executor/events/...", mesosLib + "scheduler/events/...",
	}
	// mesosWire are the calls and events that are carried.
	mesosWire = []string{mesosLib + "scheduler/...", mesosLib + "executor/...", mesosLib + "master/...", mesosLib + "agent/..."}
)

// importRule is a line of the table of who may import what.
type importRule struct {
	name string
	// of are the folders that the rule speaks about, notOf those among them that it does not.
	of, notOf []string
	// tests is true if it holds for test files too, exceptMains if programs are free of it.
	tests, exceptMains bool
	// deny are the imports that are forbidden, allow those among them that are not.
	deny, allow []string
	except      map[string]string
	why         string
}

// Direct imports only: Kubernetes' API types bring in most of the standard library by themselves.
var imports = []importRule{
	{
		name: "floor", of: []string{"messages"}, tests: true,
		deny:  []string{"./...", "github.com/mesos/...", "github.com/golang/glog", "k8s.io/client-go/...", "k8s.io/klog/..."},
		allow: []string{"./messages", "./internal/errdefs"},
		why:   "messages is the floor that both programs stand on: the standard library, Kubernetes' API types and internal/errdefs",
	},
	{
		name: "core-io", of: cores,
		deny: []string{
			"crypto/rand", "io/ioutil", "log/...", "net/...", "os/...", "runtime/...", "sync/...", "syscall", "golang.org/x/sync/...", "golang.org/x/sys/...",
			"github.com/golang/glog", "k8s.io/klog/...", "k8s.io/client-go/...", "k8s.io/kubernetes/...",
			mesosLib + "...",
		},
		allow: []string{"net/netip", "net/url", mesosLib[:len(mesosLib)-1]},
		why:   "a core decides and does nothing: no socket, file, lock, log or client, so that a scenario can replay it (ADR 001)",
	},
	{
		name: "core-neighbours", of: cores,
		deny:  []string{"./..."},
		allow: append([]string{"./internal/errdefs"}, own(cores)...),
		why:   "a core knows messages, internal/errdefs and other cores; whatever acts is a shell above it",
	},
	{
		name: "two-programs", of: []string{"scheduler/..."}, tests: true, deny: []string{"./executor/..."},
		why: "scheduler and executor are two programs that run at different versions; they share messages and nothing else",
	},
	{
		name: "two-programs", of: []string{"executor/..."}, tests: true, deny: []string{"./scheduler/..."},
		why: "scheduler and executor are two programs that run at different versions; they share messages and nothing else",
	},
	{
		name: "kubernetes-doors", of: []string{"..."}, notOf: []string{"executor/kubelet", "executor/proxy", "scheduler/kube", "internal/controlplane"}, tests: true,
		deny: []string{"k8s.io/kubernetes/..."},
		why:  "k8s.io/kubernetes costs minutes to build and brings flags and logs of its own; it has four doors (ADR 002, 032)",
	},
	{
		name: "mesos-doors", of: []string{"..."}, notOf: []string{"scheduler/mesosconn", "executor/agentconn"}, tests: true,
		deny: mesosTransport,
		why:  "Mesos' transport is behind two doors, so that it can be exchanged in two places (ADR 003)",
	},
	{
		// Tests of other packages play the master or the agent, and so speak its language.
		name: "mesos-wire", of: []string{"..."}, notOf: []string{"scheduler/mesosconn", "executor/agentconn", "internal/mesossim/..."},
		deny: mesosWire,
		why:  "calls and events of Mesos' wire are translated in mesosconn and agentconn; all others see events and effects of the cores (ADR 003). The simulator is the other end of that wire",
	},
	{
		name: "simulator-core", of: []string{"internal/mesossim/core", "internal/mesossim/allocator", "internal/mesossim/constraints", "internal/mesossim/resources"},
		deny: []string{
			"io/...", "log/...", "net", "net/url", "os/...", "runtime/...", "sync/...", "syscall", "golang.org/x/sync/...", "golang.org/x/sys/...",
			"github.com/golang/glog", "./scheduler/...", "./executor/...", "./internal/mesossim",
		},
		why: "the simulated cluster decides and does nothing, so that a test holds its clock; package mesossim acts (ADR 036)",
	},
	{
		name: "simulator-apart", of: []string{"scheduler/...", "executor/..."}, deny: []string{"./internal/mesossim/..."},
		why: "the product knows Mesos by its API only, whether it is real or simulated",
	},
	{
		name: "cmd-on-top", of: []string{"..."}, notOf: []string{"cmd/..."}, tests: true, deny: []string{"./cmd/..."},
		why: "cmd puts the parts together; what a part needs from it comes as its Config",
	},
	{
		name: "local-mode", of: []string{"..."}, notOf: []string{"cmd/...", "internal/controlplane", "test/bench/scheduler"}, deny: []string{"./internal/controlplane"},
		why: "the control plane in one process is for local mode and tests; scheduler and executor talk to any API server",
	},
	{
		name: "flags", of: []string{"..."}, notOf: []string{"cmd/..."}, exceptMains: true,
		deny: []string{"flag", "github.com/spf13/pflag", "github.com/spf13/cobra"},
		except: map[string]string{
			"executor/kubelet/kubelet.go":        "cadvisor takes its containerd socket from the process's flags only",
			"internal/controlplane/apiserver.go": "the API server's options are filled through a private flag set, as its own command does",
			"internal/controlplane/manager.go":   "the controller manager's options are filled through a private flag set, as its own command does",
		},
		why: "only cmd knows flags; a package that registers its own changes those of every program it is linked into (ADR 004)",
	},
	{
		name: "one-log", of: []string{"..."}, exceptMains: true,
		deny: []string{"log", "log/slog"},
		why:  "all programs log with glog, in one format and to one place (ADR 004)",
	},
	{
		name: "no-testing", of: []string{"..."},
		deny: []string{"testing/...", "github.com/google/go-cmp/...", "go.uber.org/goleak", "github.com/cockroachdb/datadriven", "net/http/httptest"},
		why:  "what tests need is not linked into programs",
	},
}

// own returns folders of the module as imports name them.
func own(dirs []string) []string {
	var names []string
	for _, dir := range dirs {
		names = append(names, "./"+dir)
	}
	return names
}

// rule returns the table's line as a Rule.
func (i *importRule) rule() *Rule {
	return &Rule{Name: i.name, Why: i.why, Except: i.except, find: i.find}
}

func (i *importRule) find(t *Tree, f *File) []Fault {
	if !matches(f.Dir, i.of) || matches(f.Dir, i.notOf) || f.Test && !i.tests || i.exceptMains && f.Package == "main" {
		return nil
	}
	var faults []Fault
	for _, spec := range f.AST.Imports {
		if name := t.imported(spec); matches(name, i.deny) && !matches(name, i.allow) {
			faults = append(faults, Fault{Line: t.line(spec.Pos()), What: fmt.Sprintf("%s imports %s", f.Dir, name)})
		}
	}
	return faults
}
