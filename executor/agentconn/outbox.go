package agentconn

import (
	"sync"

	"github.com/mesopod/mesopod/executor/ledger"
)

// outbox holds the statuses to send over the present subscription, in order. It is no memory: what it holds when the
// subscription ends is dropped, since the ledger has it and the next SUBSCRIBE carries it.
type outbox struct {
	mu      sync.Mutex
	queue   []ledger.Update
	sending bool
	changed chan struct{} // closed and renewed at each change
}

func newOutbox() *outbox { return &outbox{changed: make(chan struct{})} }

func (o *outbox) changedLocked() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *outbox) put(u ledger.Update) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, u)
	o.changedLocked()
}

// reset empties the box. It is called before the ledger is asked for what is unacknowledged, never after: a status
// recorded in between is then sent twice, which the agent recognises, and never lost.
func (o *outbox) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue, o.sending = nil, false
	o.changedLocked()
}

// next takes the first status, or returns a channel that tells when to look again.
func (o *outbox) next() (ledger.Update, bool, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return ledger.Update{}, false, o.changed
	}
	u := o.queue[0]
	o.queue = o.queue[1:]
	o.sending = true
	return u, true, nil
}

// sent tells that the status that next gave was sent.
func (o *outbox) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = false
	o.changedLocked()
}

// idle tells whether everything was sent, or returns a channel that tells when to look again.
func (o *outbox) idle() (bool, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) == 0 && !o.sending, o.changed
}
