package mesosconn

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/scheduler/constraints"
)

// Config says which master to talk to, and as whom.
type Config struct {
	// Master says where masters are: a list of them separated by commas, host:port, http://host:port or https://host:port,
	// of which any may lead and the others redirect to the one that does; or where ZooKeeper knows the leader,
	// zk://[user:password@]host:port[,host:port...]/path, as Mesos' own --master has it.
	Master string
	// TLS is how to know a master that speaks https, and how it is to know us.
	TLS TLS
	// Framework is how the framework presents itself.
	Framework Framework
	// SecretFile holds the secret of Framework.Principal, for masters that authenticate frameworks. Empty: no credentials.
	SecretFile string
	// CallTimeout bounds one call and the wait for SUBSCRIBED. Zero is 10 s.
	CallTimeout time.Duration
	// MinBackoff and MaxBackoff bound the pause between attempts to subscribe, before jitter. Zero is 250 ms and 15 s.
	MinBackoff, MaxBackoff time.Duration
}

// Framework is what goes into FrameworkInfo. Mesos never lets user, principal and checkpoint change later.
type Framework struct {
	// User that executors run as.
	User string
	// Name that Mesos' pages show.
	Name string
	// Roles that it is subscribed with; none is "*".
	Roles []string
	// AgentRules are what agents have to meet for offers of them to be made; masters before Mesos 1.11 do not hold to them.
	AgentRules []constraints.Rule
	// Principal that the framework is accounted and authorized as; may be empty.
	Principal string
	// Hostname and WebUIURL of the scheduler, for Mesos' pages; may be empty.
	Hostname, WebUIURL string
	// GPUs: agents with gpus are offered too; Mesos keeps them from frameworks that do not say so.
	GPUs bool
	// FailoverTimeout is how long the master keeps the framework's tasks without a scheduler.
	FailoverTimeout time.Duration
}

func (c *Config) setDefaults() {
	if c.CallTimeout == 0 {
		c.CallTimeout = 10 * time.Second
	}
	if c.MinBackoff == 0 {
		c.MinBackoff = 250 * time.Millisecond
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = 15 * time.Second
	}
}

// info is FrameworkInfo. An empty id asks the master for a new one.
func (f Framework) info(id string) *mesos.FrameworkInfo {
	checkpoint, failover := true, f.FailoverTimeout.Seconds()
	info := &mesos.FrameworkInfo{
		User:            f.User,
		Name:            f.Name,
		Checkpoint:      &checkpoint,
		FailoverTimeout: &failover,
		Roles:           f.roles(),
		Principal:       orNil(f.Principal),
		Hostname:        orNil(f.Hostname),
		WebUiURL:        orNil(f.WebUIURL),
		Capabilities: []mesos.FrameworkInfo_Capability{
			{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE},
			{Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT},
			{Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE},
			{Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE},
		},
	}
	if f.GPUs {
		info.Capabilities = append(info.Capabilities, mesos.FrameworkInfo_Capability{Type: mesos.FrameworkInfo_Capability_GPU_RESOURCES})
	}
	if id != "" {
		info.ID = &mesos.FrameworkID{Value: id}
	}
	return info
}

func (f Framework) roles() []string {
	if len(f.Roles) == 0 {
		return []string{"*"}
	}
	return f.Roles
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
