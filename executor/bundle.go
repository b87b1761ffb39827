package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/messages"
)

// orderer asks the keeper for another bundle when a launch wants one. The keeper then starts an executor from it, which
// goes on as after a crash, so there is nothing to wait for.
type orderer struct {
	file, running string
	// asked is the bundle that was asked for last.
	asked string
	// signal tells the keeper to look at the file.
	signal func() error
	// after does something later.
	after func(func())
}

// orderDelay lets the ledger have the launch that brings an order: the keeper may be fast.
const orderDelay = time.Second

func newOrderer(env Env) *orderer {
	return &orderer{
		file: env.OrderFile, running: env.Bundle,
		signal: func() error { return unix.Kill(os.Getppid(), unix.SIGHUP) },
		after:  func(do func()) { time.AfterFunc(orderDelay, do) },
	}
}

// offer looks for a bundle in the envelope of a launch. Each other one is ordered once: should it fail, the keeper says why.
func (o *orderer) offer(envelope []byte) {
	bundle, ok := messages.BundleOf(envelope)
	if !ok || o.file == "" || bundle.SHA256 == o.running || bundle.SHA256 == o.asked {
		return
	}
	o.asked = bundle.SHA256
	glog.Infof("order bundle sha256=%s running=%q", bundle.SHA256, o.running)
	o.after(func() {
		if err := o.order(bundle); err != nil {
			glog.Errorf("order bundle sha256=%s err=%v", bundle.SHA256, err)
		}
	})
}

func (o *orderer) order(bundle messages.Bundle) error {
	text, err := json.Marshal(bundle)
	if err != nil {
		return err
	}
	// Renamed, so that the keeper reads all of it or the one before.
	if err := os.WriteFile(o.file+".new", text, 0o600); err != nil {
		return fmt.Errorf("order for the keeper: %w", err)
	}
	if err := os.Rename(o.file+".new", o.file); err != nil {
		return fmt.Errorf("order for the keeper: %w", err)
	}
	return o.signal()
}
