package mesosconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// locator says which master to try.
type locator interface {
	// run keeps looking until ctx ends.
	run(ctx context.Context)
	// next is the master to try next. It waits, until ctx ends, where none is known to lead.
	next(ctx context.Context) (*url.URL, error)
	// moved waits until another master than this one is known to lead, and tells whether that is so: else ctx ended.
	moved(ctx context.Context, from *url.URL) bool
	// every is all that may be asked, one after the other, by who asks once.
	every(ctx context.Context) ([]*url.URL, error)
}

// place is Config.Master once read: masters, or else ZooKeeper.
type place struct {
	masters   []*url.URL
	zooKeeper *ensemble
}

// ensemble is where ZooKeeper is, and which of its nodes masters are below.
type ensemble struct {
	servers []string // host:port
	path    string   // absolute
	auth    string   // user:password, or empty
}

// CheckMasters tells what is wrong with Config.Master, or nil. Its errors have no kind and never hold a password.
func CheckMasters(where string, secure bool) error {
	_, err := parseMasters(where, secure)
	return err
}

// parseMasters reads Config.Master. secure makes https of what names no scheme. All entries at fault are told.
func parseMasters(where string, secure bool) (place, error) {
	if rest, is := strings.CutPrefix(strings.TrimSpace(where), "zk://"); is {
		zooKeeper, err := parseEnsemble(rest)
		return place{zooKeeper: zooKeeper}, err
	}
	var at place
	var faults []error
	for entry := range strings.SplitSeq(where, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		master, err := parseMaster(entry, secure)
		if err != nil {
			_, shown, found := strings.Cut(entry, "@") // no password
			if !found {
				shown = entry
			}
			faults = append(faults, fmt.Errorf("%q: %w", shown, err))
			continue
		}
		at.masters = append(at.masters, master)
	}
	if len(at.masters) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("no master named; give host:port,host:port or zk://host:port/path"))
	}
	return at, errors.Join(faults...)
}

func parseMaster(entry string, secure bool) (*url.URL, error) {
	if !strings.Contains(entry, "://") {
		entry = scheme(secure) + "://" + entry
	}
	master, err := url.Parse(entry)
	if err != nil {
		return nil, errors.New("not host:port or a URL")
	}
	switch {
	case master.Scheme == "zk":
		return nil, errors.New("zk:// stands once, before all servers: zk://host:port,host:port/path")
	case master.Scheme != "http" && master.Scheme != "https":
		return nil, fmt.Errorf("scheme %s is neither http nor https", master.Scheme)
	case master.Scheme == "http" && secure:
		return nil, errors.New("http, but an authority or certificate for https is configured: write https")
	case master.User != nil:
		return nil, errors.New("credentials are not part of a master's address: set principal and secretFile")
	case master.Path != "" && master.Path != "/":
		return nil, fmt.Errorf("path %s is not part of a master's address", master.Path)
	}
	return &url.URL{Scheme: master.Scheme, Host: master.Host}, checkHostPort(master.Host)
}

func scheme(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}

func checkHostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("%q is not host:port", address)
	}
	return nil
}

// parseEnsemble reads what follows zk://. The user's part ends with the last @, for a password may have one.
func parseEnsemble(rest string) (*ensemble, error) {
	e := &ensemble{}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		e.auth, rest = rest[:at], rest[at+1:]
		if user, password, ok := strings.Cut(e.auth, ":"); !ok || user == "" || password == "" {
			return nil, errors.New("zk://: what is before @ is not user:password")
		}
	}
	hosts, path, _ := strings.Cut(rest, "/")
	e.path = "/" + strings.Trim(path, "/")
	var faults []error
	if e.path == "/" || strings.Contains(e.path, "//") {
		faults = append(faults, fmt.Errorf("zk://: path %q: name the node that masters are below, as their own flag --zk does, such as /mesos", e.path))
	}
	for server := range strings.SplitSeq(hosts, ",") {
		server = strings.TrimSpace(server)
		if err := checkHostPort(server); err != nil {
			faults = append(faults, fmt.Errorf("zk://: %w", err))
		}
		e.servers = append(e.servers, server)
	}
	return e, errors.Join(faults...)
}

// String is for logs and people; it leaves the password out.
func (e *ensemble) String() string { return "zk://" + strings.Join(e.servers, ",") + e.path }

// GoString keeps the password out of %#v.
func (e *ensemble) GoString() string { return e.String() }

// Redacted is Config.Master without a password, for logs and pages.
func Redacted(where string) string {
	at, err := parseMasters(where, false)
	switch {
	case err != nil && strings.Contains(where, "@"):
		return "(not readable)"
	case err != nil || at.zooKeeper == nil:
		return where
	}
	return at.zooKeeper.String()
}

// locator reads Config.Master. The error is errdefs.ErrInvalid.
func (c Config) locator() (locator, error) {
	at, err := parseMasters(c.Master, c.TLS.set())
	if err != nil {
		return nil, fmt.Errorf("master: %w: %w", errdefs.ErrInvalid, err)
	}
	if at.zooKeeper != nil {
		return newZooKeeper(*at.zooKeeper, c.TLS.set()), nil
	}
	return &list{masters: at.masters}, nil
}

// list is a fixed list of masters, tried in turn.
type list struct {
	masters []*url.URL
	tried   atomic.Uint64
}

func (*list) run(context.Context) {}

func (l *list) next(context.Context) (*url.URL, error) {
	return l.masters[(l.tried.Add(1)-1)%uint64(len(l.masters))], nil
}

// moved never says so: that a master no longer leads is told by the end of its stream, and by a redirect.
func (*list) moved(ctx context.Context, _ *url.URL) bool {
	<-ctx.Done()
	return false
}

func (l *list) every(context.Context) ([]*url.URL, error) { return l.masters, nil }
