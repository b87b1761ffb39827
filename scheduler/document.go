package scheduler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang/glog"
	kubelet "k8s.io/kubelet/config/v1beta1"
	strictjson "sigs.k8s.io/json"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/credentials"
)

const (
	// documentPace is the time between two looks at the file.
	documentPace = time.Second
	// longestWait bounds how long an executor may wait for another document.
	longestWait = 2 * time.Minute
)

// document serves the configuration of executors out of a file, and what becomes of the file. It has no secret in it, but
// is nobody's business either: only executors with a certificate get it.
type document struct {
	path string // empty: there is no file, and the document says nothing
	// post hands static pods over that have changed; static are those of the beginning.
	post   func(core.StaticPods)
	static core.StaticPods
	// told is the text that was last found wrong. It belongs to run.
	told []byte

	mu      sync.Mutex
	text    []byte
	tag     string        // of the text, as HTTP's ETag
	changed chan struct{} // closed when it is another one
}

// newDocument reads the file. The error is errdefs.ErrInvalid.
func newDocument(path string, post func(core.StaticPods)) (*document, error) {
	d := &document{path: path, post: post, changed: make(chan struct{})}
	if path == "" {
		d.set([]byte("apiVersion: " + messages.ExecutorConfigAPIVersion + "\nkind: " + messages.ExecutorConfigKind + "\n"))
		return d, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("executor configuration: %w: %w", errdefs.ErrInvalid, err)
	}
	config, err := checkDocument(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d.set(text)
	d.static = staticPods(config)
	return d, nil
}

// staticPods are those of a document. What is wrong with others is told here, and on each Node by its executor.
func staticPods(config messages.ExecutorConfig) core.StaticPods {
	pods, faults := config.Static()
	for _, fault := range faults {
		glog.Errorf("pass over static pod reason=%q", fault)
	}
	return core.StaticPods{Pods: pods}
}

// checkDocument refuses what an executor could do nothing with, the fields of the kubelet's section included.
func checkDocument(text []byte) (messages.ExecutorConfig, error) {
	config, err := messages.ParseExecutorConfig(text)
	if err != nil || len(config.KubeletConfiguration) == 0 {
		return config, err
	}
	unknown, err := strictjson.UnmarshalStrict(config.KubeletConfiguration, &kubelet.KubeletConfiguration{})
	if err := errors.Join(append(unknown, err)...); err != nil {
		return config, fmt.Errorf("executor configuration: kubeletConfiguration: %w: %w", errdefs.ErrInvalid, err)
	}
	return config, nil
}

func (d *document) set(text []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text, d.tag = text, fmt.Sprintf(`"%x"`, sha256.Sum256(text))
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *document) now() (text []byte, tag string, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text, d.tag, d.changed
}

// run follows the file until ctx ends.
func (d *document) run(ctx context.Context) error {
	tick := time.NewTicker(documentPace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if d.path != "" {
				d.look()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// look takes over what the file says now. A file that is wrong, or away, changes nothing; that is told once.
func (d *document) look() {
	text, err := os.ReadFile(d.path)
	if err != nil {
		text = []byte(err.Error())
	}
	old, _, _ := d.now()
	if bytes.Equal(text, old) || bytes.Equal(text, d.told) {
		return
	}
	var config messages.ExecutorConfig
	if err == nil {
		config, err = checkDocument(text)
	}
	if err != nil {
		d.told = text
		glog.Errorf("keep executor configuration file=%s reason=%q", d.path, err)
		return
	}
	d.told = nil
	d.set(text)
	_, tag, _ := d.now()
	d.post(staticPods(config))
	glog.Infof("change executor configuration file=%s tag=%s", d.path, tag)
}

// ServeHTTP answers as messages.ExecutorConfigPath says.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := credentials.CheckPeer(r.TLS, ""); err != nil {
		glog.Warningf("refuse executor configuration peer=%s reason=%q", r.RemoteAddr, err)
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	text, tag, changed := d.now()
	if known := r.Header.Get("If-None-Match"); known == tag {
		timer := time.NewTimer(waitOf(r))
		defer timer.Stop()
		select {
		case <-changed:
			text, tag, _ = d.now()
		case <-timer.C:
		case <-r.Context().Done():
		}
		if known == tag {
			w.Header().Set("ETag", tag)
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(text) // who has gone asks again
}

// waitOf is how long a caller would wait.
func waitOf(r *http.Request) time.Duration {
	for preference := range strings.SplitSeq(r.Header.Get("Prefer"), ",") {
		if seconds, ok := strings.CutPrefix(strings.TrimSpace(preference), "wait="); ok {
			if n, err := strconv.ParseUint(seconds, 10, 16); err == nil {
				return min(time.Duration(n)*time.Second, longestWait)
			}
		}
	}
	return 0
}
