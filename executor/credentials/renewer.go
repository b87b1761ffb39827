package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

const (
	// firstPause and lastPause bound the wait after a question that was not answered while pods wait for it, renewPause
	// that after one that is early anyway.
	firstPause, lastPause = time.Second, 30 * time.Second
	renewPause            = time.Minute
	// recordFile keeps what is known of the scheduler for the next executor.
	recordFile = "scheduler.json"
)

// errNone is what those hear who need certificates that nobody can be asked for.
var errNone = fmt.Errorf("no launch has brought a token for certificates that is still good, and the configuration names no kubeconfig: %w", errdefs.ErrRefused)

// Who is the executor that asks.
type Who struct {
	AgentID, ExecutorID, Node string
	// Address is where the kubelet serves; the scheduler must see the questions come from it.
	Address net.IP
}

// Renewer gets a node's certificates with the token of a launch, and new ones in time with those that it has.
//
// Order of calls: NewRenewer; Run in a goroutine of the caller's; Offer with each launch; Await before certificates are
// used. All but Run may be called from any goroutine.
type Renewer struct {
	store *Store
	who   Who
	now   func() time.Time
	// woken holds a value while an Offer has not been looked at.
	woken chan struct{}
	ready chan struct{}
	// request waits for its answer. It belongs to Run.
	request *Request

	mu      sync.Mutex
	known   record
	until   time.Time     // the end of the certificates that are saved; zero for none
	refusal error         // why there are none, and nobody is being asked
	changed chan struct{} // closed and made anew whenever one of the above changes
}

// record is what recordFile holds.
type record struct {
	// Access is of the newest launch. Its token is kept until it was spent: the executor may be restarted before.
	Access messages.Access `json:"access"`
	// Renew is when the scheduler wants to be asked again at the latest; zero leaves it to the certificates.
	Renew time.Time `json:"renew,omitzero"`
}

// NewRenewer takes over what an earlier executor of the node has saved.
func NewRenewer(store *Store, who Who) (*Renewer, error) {
	r := &Renewer{
		store: store, who: who, now: time.Now,
		woken: make(chan struct{}, 1), ready: make(chan struct{}), changed: make(chan struct{}),
	}
	data, err := os.ReadFile(filepath.Join(store.dir, recordFile))
	if err == nil {
		err = json.Unmarshal(data, &r.known)
	}
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read what is known of the scheduler: %w", err)
	}
	_, r.until, err = store.Life()
	if err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		glog.Warningf("ignore credentials reason=%q", err)
	}
	if r.good() {
		close(r.ready)
	} else if r.known.Access.Token == "" {
		r.refusal = errNone
	}
	return r, nil
}

// good tells whether there are certificates that are good now. It is called with the lock held, or alone.
func (r *Renewer) good() bool { return r.now().Before(r.until) }

// Ready is closed once there were certificates.
func (r *Renewer) Ready() <-chan struct{} { return r.ready }

// Access is how to reach the scheduler, as the newest launch said; false if none did.
func (r *Renewer) Access() (messages.Access, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known.Access, r.known.Access.URL != ""
}

// Offer tells what a launch brought. It does not wait for the scheduler.
func (r *Renewer) Offer(access messages.Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.known.Access
	r.known.Access = access
	same := old.URL == access.URL && string(old.KeySHA256) == string(access.KeySHA256)
	if same && r.good() {
		return // the token is for the case that the certificates are not liked any more
	}
	r.refusal = nil
	r.save()
	r.tell()
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Await waits for certificates that are good. The error is errdefs.ErrRefused, with the reason, if nobody can be asked for
// them or the scheduler said no; the next launch may mend that.
func (r *Renewer) Await(ctx context.Context) error {
	for {
		r.mu.Lock()
		good, refusal, changed := r.good(), r.refusal, r.changed
		r.mu.Unlock()
		if good || refusal != nil {
			return refusal
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for credentials: %w: %w", errdefs.ErrUnavailable, ctx.Err())
		}
	}
}

// Run asks for certificates whenever it is time to, until ctx ends.
func (r *Renewer) Run(ctx context.Context) error {
	var pause time.Duration
	for {
		timer := time.NewTimer(max(pause, r.due()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.woken:
			timer.Stop()
			pause = 0
			continue
		case <-timer.C:
		}
		err := r.renew(ctx)
		switch {
		case err == nil:
			pause = 0
		case r.hasGood():
			pause = renewPause
		default:
			pause = min(max(firstPause, 2*pause), lastPause)
		}
		if err != nil && ctx.Err() == nil {
			glog.Warningf("miss credentials node=%s again_in=%s err=%v", r.who.Node, max(pause, r.due()), err)
		}
	}
}

func (r *Renewer) hasGood() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.good()
}

// due is how long it is until the scheduler is to be asked.
func (r *Renewer) due() time.Duration {
	const never = 24 * time.Hour // then it is looked at again
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.good() {
		if r.known.Access.Token == "" {
			return never
		}
		return 0
	}
	at, err := r.store.RenewAt()
	if err != nil || r.known.Access.URL == "" {
		return never
	}
	if early := r.known.Renew; !early.IsZero() && early.Before(at) {
		at = early
	}
	return min(max(at.Sub(r.now()), 0), never)
}

// renew asks once, and saves the answer.
func (r *Renewer) renew(ctx context.Context) error {
	access, _ := r.Access()
	if access.URL == "" {
		return nil
	}
	if r.request == nil {
		var err error
		if r.request, err = r.store.Request(r.who.Address); err != nil {
			return err
		}
	}
	answer, err := r.ask(ctx, access)
	if err == nil {
		err = r.store.Save(r.request, answer)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.tell()
	if err != nil {
		if !errors.Is(err, errdefs.ErrUnavailable) && !r.good() && r.known.Access.Token == access.Token {
			r.refusal = fmt.Errorf("%w: %w", errdefs.ErrRefused, err)
			r.known.Access.Token = ""
			r.request = nil
			r.save()
		}
		return err
	}
	r.request = nil
	_, r.until, err = r.store.Life()
	r.known.Renew = time.Time{}
	if answer.RenewAfterSeconds > 0 {
		r.known.Renew = r.now().Add(time.Duration(answer.RenewAfterSeconds) * time.Second)
	}
	if r.known.Access.Token == access.Token {
		r.known.Access.Token = ""
	}
	r.refusal = nil
	r.save()
	glog.Infof("save credentials node=%s until=%s", r.who.Node, r.until.Format(time.RFC3339))
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
	return err
}

// ask shows the certificates, or, if there are none or they are not liked, the token.
func (r *Renewer) ask(ctx context.Context, access messages.Access) (messages.Credentials, error) {
	client := Client{URL: access.URL, Pin: [32]byte(access.KeySHA256)}
	question := messages.CredentialsRequest{
		AgentID: r.who.AgentID, ExecutorID: r.who.ExecutorID, Node: r.who.Node,
		KubeletCSR: r.request.KubeletCSR, ExecutorCSR: r.request.ExecutorCSR, ServingCSR: r.request.ServingCSR,
	}
	if r.hasGood() {
		own, err := r.store.Certificate()
		if err != nil {
			return messages.Credentials{}, err
		}
		client.Certificate = &own
		answer, err := client.Ask(ctx, question)
		if err == nil || access.Token == "" {
			return answer, err
		}
		client.Certificate = nil
	}
	question.Token = access.Token
	return client.Ask(ctx, question)
}

// save writes the record. The lock is held. What cannot be written is only missed by the next executor.
func (r *Renewer) save() {
	kept := r.known
	if r.good() {
		kept.Access.Token = "" // a launch that came meanwhile has brought another, which nobody needs after a restart
	}
	data, err := json.Marshal(kept)
	if err == nil {
		err = replace(filepath.Join(r.store.dir, recordFile), data)
	}
	if err != nil {
		glog.Warningf("forget scheduler access=%s err=%v", r.known.Access, err)
	}
}

// tell wakes those who wait. The lock is held.
func (r *Renewer) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}
