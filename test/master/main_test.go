// Package master holds the tests of a scheduler that finds its master in ZooKeeper, behind TLS, and authenticates there:
// two real masters, of which the tests say who leads, and an agent that follows them too.
package master

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mesopod/mesopod/test/cluster"
	"github.com/mesopod/mesopod/test/tlsproxy"
	"github.com/mesopod/mesopod/test/zookeeper"
)

const (
	zooKeeper = "21810" // the port
	// agentsPath is where the agent looks, and fronts where the scheduler does: there masters stand behind TLS.
	agentsPath, fronts = "/mesos", "/fronts"
	principal, secret  = "front-desk", "correct-horse"
)

// master is a Mesos master at port on the bridge, and behind TLS at front on this machine.
type master struct{ port, front string }

func (m master) address() string { return cluster.BridgeIP + ":" + m.port }

// first is the one of local mode, second the tests' own.
var first, second = master{"5050", "15050"}, master{"5060", "15060"}

var (
	suite *cluster.Cluster
	zk    *zookeeper.Server
	dir   string
	// config is the scheduler's configuration file, which verbs for people take too.
	config string
	// leads are the nodes of the master that leads.
	leads []string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	code, err := prepare()
	if err == nil {
		code = cluster.Suite{Cluster: suite}.Run(m)
	}
	if err = errors.Join(err, clear()); err != nil {
		fmt.Fprintln(os.Stderr, "master:", err)
		return max(code, 1)
	}
	return code
}

var ends []func() error

func clear() error {
	var errs []error
	for i := len(ends) - 1; i >= 0; i-- {
		errs = append(errs, ends[i]())
	}
	return errors.Join(errs...)
}

func prepare() (code int, err error) {
	if dir, err = os.MkdirTemp("", "mesopod-master"); err != nil {
		return 1, err
	}
	ends = append(ends, func() error { return os.RemoveAll(dir) })
	if zk, err = zookeeper.Start(dir, "0.0.0.0:"+zooKeeper); err != nil {
		return 1, err
	}
	ends = append(ends, zk.Stop)
	authority, err := tlsproxy.NewAuthority(dir)
	if err != nil {
		return 1, err
	}
	cert, key, err := authority.Issue("masters", time.Now().Add(time.Hour), "masters.test")
	if err != nil {
		return 1, err
	}
	if _, _, err := authority.Issue("client", time.Now().Add(time.Hour)); err != nil {
		return 1, err
	}
	for _, one := range []master{first, second} {
		proxy, err := tlsproxy.Start("127.0.0.1:"+one.front, one.address(), cert, key, authority)
		if err != nil {
			return 1, err
		}
		ends = append(ends, proxy.Stop)
	}
	for _, path := range []string{agentsPath, fronts} {
		if err := zk.Make(path, ""); err != nil {
			return 1, err
		}
	}
	if err := lead(first); err != nil {
		return 1, err
	}
	config = filepath.Join(dir, "scheduler.yaml")
	return 1, errors.Join(configure())
}

func configure() error {
	text := fmt.Sprintf(`apiVersion: mesopod.io/v1alpha1
kind: SchedulerConfig
master: %[1]s
principal: %[2]s
secretFile: %[3]s/secret
masterCAFile: %[3]s/ca.crt
masterCertFile: %[3]s/client.crt
masterKeyFile: %[3]s/client.key
masterServerName: masters.test
`, where(), principal, dir)
	suite = cluster.New(cluster.Options{
		Name: "master", AgentFlags: []string{"master=zk://" + cluster.BridgeIP + ":" + zooKeeper + agentsPath},
		// The flag is over that of local mode, which would be over the file.
		Flags: []string{"--scheduler-flag=config=" + config, "--scheduler-flag=master=" + where()},
	})
	return errors.Join(os.WriteFile(config, []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "secret"), []byte(secret+"\n"), 0o600))
}

// where is what the scheduler and people are told: one of the two servers is down all the time.
func where() string { return "zk://127.0.0.1:1,127.0.0.1:" + zooKeeper + fronts }

// lead has a master lead, for the agent and for the scheduler.
func lead(m master) error {
	for path, address := range map[string]string{agentsPath: m.address(), fronts: "127.0.0.1:" + m.front} {
		node, err := zk.Contend(path, address, "127.0.0.1")
		if err != nil {
			return err
		}
		leads = append(leads, node)
	}
	return nil
}

// noLeader takes the nodes of the master away, as ZooKeeper does with those of one that died.
func noLeader() error {
	var errs []error
	for _, node := range leads {
		errs = append(errs, zk.Withdraw(node))
	}
	leads = nil
	return errors.Join(errs...)
}
