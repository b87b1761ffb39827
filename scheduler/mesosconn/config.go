package mesosconn

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Config says which master to talk to, and as whom.
type Config struct {
	// Master is a list of masters, separated by commas: host:port, http://host:port or https://host:port. Any of them may
	// lead; the others redirect to the one that does.
	Master string
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
	// Principal that the framework is accounted and authorized as; may be empty.
	Principal string
	// Hostname and WebUIURL of the scheduler, for Mesos' pages; may be empty.
	Hostname, WebUIURL string
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

// ParseMasters reads a list of masters. Its error is errdefs.ErrInvalid and names every entry at fault.
func ParseMasters(list string) ([]*url.URL, error) {
	masters, err := mastersIn(list)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
	}
	return masters, nil
}

// CheckMasters is ParseMasters for those who gather the faults of a whole configuration: its error has no kind yet.
func CheckMasters(list string) error {
	_, err := mastersIn(list)
	return err
}

func mastersIn(list string) ([]*url.URL, error) {
	if strings.HasPrefix(strings.TrimSpace(list), "zk://") {
		return nil, fmt.Errorf("master %q: finding the master in ZooKeeper is not supported yet; name the masters as host:port,host:port", list)
	}
	var masters []*url.URL
	var faults []error
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		master, err := parseMaster(entry)
		if err != nil {
			faults = append(faults, fmt.Errorf("master %q: %w", entry, err))
			continue
		}
		masters = append(masters, master)
	}
	if len(masters) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("no master named; give host:port or host:port,host:port"))
	}
	return masters, errors.Join(faults...)
}

func parseMaster(entry string) (*url.URL, error) {
	if !strings.Contains(entry, "://") {
		entry = "http://" + entry
	}
	master, err := url.Parse(entry)
	if err != nil {
		return nil, err
	}
	if master.Scheme != "http" && master.Scheme != "https" {
		return nil, fmt.Errorf("scheme %s is neither http nor https", master.Scheme)
	}
	if master.Path != "" && master.Path != "/" {
		return nil, fmt.Errorf("path %s is not part of a master's address", master.Path)
	}
	if _, port, err := net.SplitHostPort(master.Host); err != nil || port == "" || master.Hostname() == "" {
		return nil, errors.New("not host:port")
	}
	return &url.URL{Scheme: master.Scheme, Host: master.Host}, nil
}

// info is FrameworkInfo. An empty id asks the master for a new one.
func (f Framework) info(id string) *mesos.FrameworkInfo {
	checkpoint, failover := true, f.FailoverTimeout.Seconds()
	info := &mesos.FrameworkInfo{
		User:            f.User,
		Name:            f.Name,
		Checkpoint:      &checkpoint,
		FailoverTimeout: &failover,
		Roles:           []string{"*"},
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
	if id != "" {
		info.ID = &mesos.FrameworkID{Value: id}
	}
	return info
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
