package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/credentials"
	"github.com/mesopod/mesopod/executor/kubelet"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

const (
	// reconfiguredCode is the exit code after which the keeper starts us again, with another document. Pods run on.
	reconfiguredCode = 5
	// documentWait is how long one question for another document may take.
	documentWait = time.Minute
	// firstDocumentPause and lastDocumentPause bound the wait after a question that failed. After some failures in a row an
	// executor without a document starts with the defaults: its pods wait.
	firstDocumentPause, lastDocumentPause = time.Second, time.Minute
	patientFailures                       = 4
)

// follower keeps up with the operator's document. The first one that there is decides how this executor lives; another one
// ends it, so that the next one lives by that. The follower's own goroutine alone touches its fields, but settled.
type follower struct {
	e *Executor
	// node is the name of this agent's.
	node string
	// inUse is the configuration that was settled on, valid once settled is closed.
	inUse   Config
	settled chan struct{}
	// faults are the static pods in it that are passed over, valid as inUse is.
	faults []error
	// trial tells that no kubelet has lived by the document yet. Any goroutine may look.
	trial atomic.Bool
	// tag is that of the document that was seen last.
	tag string
}

// known is the configuration that an earlier executor of this agent lived by; false if there is none that is good.
func (e *Executor) known() (Config, bool) {
	text := e.documents().inUse()
	if text == nil {
		return Config{}, false
	}
	config, err := e.read(text)
	if err != nil {
		glog.Errorf("ignore configuration kept of the scheduler err=%v", err)
	}
	return config, err == nil
}

func (e *Executor) documents() documents { return documents{e.config.StateDir} }

// read checks a document as far as it can be before a kubelet lives by it.
func (e *Executor) read(text []byte) (Config, error) {
	config, unknown, err := e.config.over(text, e.env)
	if err != nil {
		return Config{}, err
	}
	for _, field := range unknown {
		glog.Warningf("pass over configuration reason=%q", fmt.Sprintf("%v: this executor is older than the scheduler", field))
	}
	if err := kubelet.CheckSection(config.KubeletConfiguration); err != nil {
		return Config{}, fmt.Errorf("executor configuration of the scheduler: %w", err)
	}
	return config, nil
}

// now waits for the configuration to live by.
func (f *follower) now(ctx context.Context) (Config, error) {
	select {
	case <-f.settled:
		return f.inUse, nil
	case <-ctx.Done():
		return Config{}, ctx.Err()
	}
}

// settle decides how this executor lives.
func (f *follower) settle(ctx context.Context, config Config, why string) {
	select {
	case <-f.settled:
		return
	default:
	}
	glog.Infof("use configuration reason=%q launch_grace=%s suicide=%s kubelet=%q", why,
		config.LaunchGracePeriod.Duration, config.SuicideTimeout.Duration, config.KubeletConfiguration)
	f.inUse = config
	pods, faults := staticPods(config, f.node)
	f.faults = faults
	close(f.settled)
	f.e.post(ctx, core.Configured{LaunchGrace: config.LaunchGracePeriod.Duration, SuicideTimeout: config.SuicideTimeout.Duration, Static: pods})
}

// staticPods are the pods that the kubelet runs by the configuration, and what is wrong with those that it does not
// (EX-103, EX-104).
func staticPods(config Config, node string) (pods []core.StaticPod, faults []error) {
	static, faults := config.Static()
	for _, one := range static {
		pod, err := kubelet.StaticPod(one.Manifest, node)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		pods = append(pods, core.StaticPod{Claim: one.Claim, Pod: pod})
	}
	for _, fault := range faults {
		glog.Errorf("pass over static pod err=%v", fault)
	}
	return pods, faults
}

// run follows the document until ctx ends.
func (f *follower) run(ctx context.Context) error {
	failures, pause := 0, time.Duration(0)
	for ctx.Err() == nil {
		access, ok := f.e.identity.reach()
		if !ok {
			select {
			case <-f.e.identity.launches:
				if _, ok := f.e.identity.reach(); !ok {
					f.settle(ctx, f.e.config, "the scheduler serves none")
				}
			case <-ctx.Done():
			}
			continue
		}
		err := f.ask(ctx, access)
		if err == nil {
			failures, pause = 0, 0
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		failures++
		pause = min(max(2*pause, firstDocumentPause), lastDocumentPause)
		glog.Warningf("miss configuration of the scheduler again_in=%s err=%v", pause, err)
		if failures >= patientFailures || errors.Is(err, errdefs.ErrNotFound) || errors.Is(err, errdefs.ErrInvalid) {
			f.settle(ctx, f.e.config, "the scheduler's cannot be had")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return nil
}

// ask gets the document once it is another than the one that was seen last, or says nothing after a while.
func (f *follower) ask(ctx context.Context, access messages.Access) error {
	certificate, err := f.e.identity.certificate(ctx)
	if err != nil {
		return err
	}
	client := credentials.Client{URL: access.URL, Pin: [32]byte(access.KeySHA256), Certificate: &certificate}
	text, tag, err := client.Get(ctx, messages.ExecutorConfigPath, f.tag, documentWait)
	if err != nil || tag == f.tag {
		return err
	}
	f.tag = tag
	config, err := f.e.read(text)
	if err == nil && f.e.documents().refused(text) {
		err = fmt.Errorf("no kubelet lived by it: %w", errdefs.ErrRefused)
	}
	if err != nil {
		// Whoever wrote it finds this in our log, and the executor goes on as it is.
		glog.Errorf("refuse configuration tag=%s err=%v", tag, err)
		f.settle(ctx, f.e.config, "the scheduler's is refused")
		return nil
	}
	return f.take(ctx, text, config)
}

// take lives by a document that is good, or has the next executor live by it.
func (f *follower) take(ctx context.Context, text []byte, config Config) error {
	select {
	case <-f.settled:
	default:
		if err := f.e.documents().try(text, 1); err != nil {
			return err
		}
		f.trial.Store(true)
		f.settle(ctx, config, "from the scheduler")
		return nil
	}
	if reflect.DeepEqual(config, f.inUse) {
		return f.e.documents().keep(text)
	}
	if err := f.e.documents().try(text, 0); err != nil {
		return err
	}
	f.e.put(ctx, message{exit: &core.Exit{Code: reconfiguredCode, Why: "the configuration has changed; pods run on"}})
	<-ctx.Done()
	return nil
}

// lives notes that the kubelet does.
func (f *follower) lives() {
	if f.trial.CompareAndSwap(true, false) {
		if err := f.e.documents().good(); err != nil {
			glog.Errorf("miss end of trial err=%v", err)
		}
	}
}

// ended tells what the end of the kubelet means: that of all tasks, or, if the document may be to blame, that the next
// executor goes back to the one before.
func (f *follower) ended(err error) message {
	if f.trial.Load() {
		if wrong := f.e.documents().fail(); wrong == nil {
			return message{exit: &core.Exit{Code: reconfiguredCode, Why: fmt.Sprintf("back to the configuration before; pods run on: %v", err)}}
		}
	}
	return message{event: core.KubeletEnded{Err: err}}
}

// replaceFile writes a file whole, 0600.
func replaceFile(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
