package mesosconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/golang/glog"

	"github.com/mesopod/mesopod/internal/errdefs"
)

const (
	// sessionTimeout is Mesos' own for a detector. No node of ours depends on the session.
	sessionTimeout = 10 * time.Second
	// zkPause is how long to wait, before jitter, after ZooKeeper failed to answer; the client itself waits for a second
	// when it has tried all servers.
	zkPause = time.Second
	// findTimeout bounds who asks once.
	findTimeout = 10 * time.Second
)

// zooKeeper finds the leading master in ZooKeeper. A ZooKeeper that is away leaves the leader as it was last seen: a stream
// that lives is not given up for that.
type zooKeeper struct {
	ensemble
	secure bool

	mu      sync.Mutex
	leader  *url.URL
	why     error         // why there is none
	changed chan struct{} // closed, and made anew, with each change of leader or why
}

func newZooKeeper(e ensemble, secure bool) *zooKeeper {
	return &zooKeeper{ensemble: e, secure: secure, changed: make(chan struct{}), why: errors.New("ZooKeeper has not answered yet")}
}

func (z *zooKeeper) current() (leader *url.URL, changed <-chan struct{}, why error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.leader, z.changed, z.why
}

// set notes who leads; nil is nobody. One that cannot be told, since ZooKeeper is away, leaves the leader as it is.
func (z *zooKeeper) set(leader *url.URL, away bool, why error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	before, reason := z.leader, z.why
	if !away {
		z.leader = leader
	}
	z.why = why
	// A person wants to know each of these once.
	if why != nil && (reason == nil || reason.Error() != why.Error()) {
		glog.Warningf("find master in=%s reason=%q", z, why)
	}
	if z.leader != nil && (before == nil || before.Host != z.leader.Host) {
		glog.Infof("see master=%s in=%s", z.leader.Host, z)
	}
	close(z.changed)
	z.changed = make(chan struct{})
}

func (z *zooKeeper) next(ctx context.Context) (*url.URL, error) {
	for {
		leader, changed, why := z.current()
		if leader != nil {
			return leader, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("find master in %s: %w: %w", z, errdefs.ErrUnavailable, why)
		}
	}
}

func (z *zooKeeper) moved(ctx context.Context, from *url.URL) bool {
	for {
		leader, changed, _ := z.current()
		if leader != nil && leader.Host != from.Host {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// every looks for the leader, for who has not called run.
func (z *zooKeeper) every(ctx context.Context) ([]*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	var looks sync.WaitGroup
	defer looks.Wait()
	looking, stop := context.WithCancel(ctx)
	defer stop()
	looks.Go(func() { z.run(looking) })
	leader, err := z.next(ctx)
	if err != nil {
		return nil, err
	}
	return []*url.URL{leader}, nil
}

// run looks at the masters' nodes, and again whenever they change.
func (z *zooKeeper) run(ctx context.Context) {
	conn, events, err := zk.Connect(z.servers, sessionTimeout, zk.WithHostProvider(&servers{}), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil { // only an empty list, which parseEnsemble refuses
		z.set(nil, true, err)
		return
	}
	var reads sync.WaitGroup
	defer reads.Wait()
	// Nobody else reads them, and a full channel would have the client log each.
	reads.Go(func() {
		for range events {
		}
	})
	reads.Go(func() {
		<-ctx.Done()
		conn.Close() // frees each question below
	})
	if z.auth != "" {
		for conn.AddAuth("digest", []byte(z.auth)) != nil && ctx.Err() == nil {
			z.set(nil, true, errors.New("ZooKeeper does not answer, or not to this user"))
			z.pause(ctx)
		}
	}
	for ctx.Err() == nil {
		changes, err := z.look(conn)
		if err != nil {
			z.pause(ctx)
			continue
		}
		select {
		case <-changes:
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
}

func (z *zooKeeper) pause(ctx context.Context) {
	select {
	case <-time.After(zkPause/2 + rand.N(zkPause)):
	case <-ctx.Done():
	}
}

// look finds the leader once. changes tells when to look again; after an error that is soon.
func (z *zooKeeper) look(conn *zk.Conn) (changes <-chan zk.Event, err error) {
	nodes, _, changes, err := conn.ChildrenW(z.path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		z.set(nil, false, fmt.Errorf("there is no node %s: compare with the masters' flag --zk", z.path))
		return nil, err
	case errors.Is(err, zk.ErrNoAuth):
		z.set(nil, true, fmt.Errorf("this user may not list node %s", z.path))
		return nil, err
	case err != nil:
		z.set(nil, true, fmt.Errorf("ZooKeeper does not answer: %w", err))
		return nil, err
	}
	node := leading(nodes)
	if node == "" {
		z.set(nil, false, errors.New("no master leads"))
		return changes, nil
	}
	data, _, err := conn.Get(z.path + "/" + node)
	switch {
	case errors.Is(err, zk.ErrNoNode): // it went meanwhile, which changes tells
		return changes, nil
	case err != nil:
		z.set(nil, true, fmt.Errorf("read node %s: %w", node, err))
		return nil, err
	}
	leader, err := parseMasterInfo(data, z.secure)
	if err != nil {
		err = fmt.Errorf("node %s/%s: %w", z.path, node, err)
	}
	z.set(leader, false, err)
	return changes, nil
}

// servers hands out the ensemble's servers in turn. Their names are looked up at each attempt, unlike by the client's own
// provider, which remembers the addresses of the start.
type servers struct {
	mu   sync.Mutex
	list []string
	at   int
	// tried is how many attempts there were since a server let us in, that one included.
	tried int
}

// Init is given the servers in an order that was drawn by lot.
func (s *servers) Init(list []string) error {
	s.list = list
	return nil
}

// Len is how many there are.
func (s *servers) Len() int { return len(s.list) }

// Next is the one to try, and whether all were tried: then the client pauses.
func (s *servers) Next() (server string, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server = s.list[s.at]
	s.at = (s.at + 1) % len(s.list)
	all = s.tried > 0 && s.tried%len(s.list) == 0
	s.tried++
	return server, all
}

// Connected notes that the server that was tried last let us in.
func (s *servers) Connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = 1
}

// quiet has the client's own words in the log of who asks for them: what matters of them set tells.
type quiet struct{}

// Printf is called with each failure to connect.
func (quiet) Printf(format string, args ...any) { glog.V(1).Infof("zookeeper "+format, args...) }
