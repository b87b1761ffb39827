package runtime

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/golang/glog"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// patience is how long containerd may be silent before it counts as hung.
type patience struct {
	// pause is the time between two questions, deadline that for an answer.
	pause, deadline time.Duration
	// boot is how long the first answer may take, silence how long there may be none afterwards. The kubelet gives each of
	// its calls two minutes, and nothing but a hang keeps containerd from telling its state for this long.
	boot, silence time.Duration
}

var defaultPatience = patience{pause: 5 * time.Second, deadline: 5 * time.Second, boot: 90 * time.Second, silence: 25 * time.Second}

// errHung is the end of a containerd that we killed because it did not answer.
var errHung = errors.New("it hung")

// attend asks containerd how it is, closes ready at its first answer, and kills it when it is silent for too long: its
// containers live on in their shims, and the next one adopts them. It returns errHung then, and nil when ctx ends.
func (r *Runtime) attend(ctx context.Context, process *os.Process) error {
	last, limit, pause := time.Now(), r.patience.boot, bootPoll
	for {
		version, err := r.ask(ctx)
		switch {
		case err == nil:
			r.readyOnce.Do(func() {
				glog.Infof("containerd answers version=%s", version)
				close(r.ready)
			})
			last, limit, pause = time.Now(), r.patience.silence, r.patience.pause
		case ctx.Err() != nil:
			return nil
		case time.Since(last) >= limit:
			glog.Errorf("kill containerd pid=%d silent=%s err=%v", process.Pid, time.Since(last).Round(time.Second), err)
			if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				glog.Errorf("kill containerd pid=%d err=%v", process.Pid, err)
			}
			return errHung
		case limit == r.patience.silence:
			glog.Warningf("containerd does not answer silent=%s err=%v", time.Since(last).Round(time.Second), err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// ask has containerd look after itself: Status, in contrast to Version, goes through the parts that serve the kubelet.
func (r *Runtime) ask(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience.deadline)
	defer cancel()
	answer, err := r.cri.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return "", err
	}
	_, err = r.cri.Status(ctx, &cri.StatusRequest{})
	return answer.RuntimeVersion, err
}
