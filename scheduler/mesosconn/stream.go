package mesosconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang/glog"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/constraints"
	"github.com/mesopod/mesopod/scheduler/core"
)

const (
	schedulerPath = "/master/api/v1/scheduler"
	operatorPath  = "/master/api/v1"
	mediaType     = "application/x-protobuf"
	streamHeader  = "Mesos-Stream-Id"
	// maxRedirects per attempt: the master may change its mind while it elects.
	maxRedirects = 5
	// silentBeats is how many heartbeats may be missed.
	silentBeats = 4
	// maxRecord bounds one event. mesos-go's reader stops at 4 MiB.
	maxRecord = 64 << 20
)

var (
	errSilent = errors.New("the master sent nothing for too long")
	errEnded  = errors.New("the master closed the stream")
	errMoved  = errors.New("another master leads")
)

// attempt makes one subscription and lives with it. lived tells whether the master accepted it.
func (c *Conn) attempt(parent context.Context, master *url.URL) (lived bool, err error) {
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	watchdog := time.AfterFunc(c.cfg.CallTimeout, func() { end(errSilent) })
	defer watchdog.Stop()
	var following sync.WaitGroup
	defer following.Wait()
	defer end(nil)
	following.Go(func() {
		if c.where.moved(ctx, master) {
			end(errMoved)
		}
	})

	response, leader, err := c.subscribe(ctx, master)
	if err != nil {
		return false, because(ctx, err)
	}
	defer response.Body.Close() // with ctx cancelled by then, the connection is not kept
	defer end(nil)

	sub := &subscription{master: leader, streamID: response.Header.Get(streamHeader), end: end}
	lived, err = c.read(sub, response.Body, watchdog)
	err = because(ctx, err)
	if lived {
		c.set(nil)
	}
	if lived && parent.Err() == nil {
		glog.Warningf("lose master=%s reason=%q", leader.Host, err)
		c.post(core.Disconnected{Err: err})
	}
	return lived, err
}

// because prefers the reason for which the attempt's context was ended over what the transport makes of it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// subscribe sends SUBSCRIBE, follows redirects to the leader, and returns its answer with the stream.
func (c *Conn) subscribe(ctx context.Context, master *url.URL) (*http.Response, *url.URL, error) {
	body, err := c.cfg.Framework.subscribe(c.id())
	if err != nil {
		return nil, nil, &fatalError{fmt.Errorf("encode SUBSCRIBE: %w: %w", errdefs.ErrInvalid, err)}
	}
	for range maxRedirects {
		request, err := newRequest(ctx, master, schedulerPath, body)
		if err != nil {
			return nil, nil, err
		}
		c.credentials.sign(request)
		response, err := c.stream.Do(request)
		if err != nil {
			return nil, nil, fmt.Errorf("subscribe at %s: %w: %w", master.Host, errdefs.ErrUnavailable, explainTransport(err, master.Scheme))
		}
		if response.StatusCode == http.StatusOK {
			return response, master, nil
		}
		text := bodyText(response)
		switch response.StatusCode {
		case http.StatusTemporaryRedirect:
			leader, err := leaderOf(master, response.Header.Get("Location"))
			if err != nil {
				return nil, nil, err
			}
			glog.V(1).Infof("follow redirect from=%s to=%s", master.Host, leader.Host)
			master = leader
		case http.StatusUnauthorized:
			return nil, nil, &fatalError{fmt.Errorf("subscribe at %s: %w: %s: %s", master.Host, errdefs.ErrRefused, response.Status, c.credentials.advice())}
		case http.StatusBadRequest, http.StatusForbidden,
			http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
			return nil, nil, &fatalError{fmt.Errorf("subscribe at %s: %w: %s: %s", master.Host, errdefs.ErrRefused, response.Status, text)}
		default:
			return nil, nil, fmt.Errorf("subscribe at %s: %w: %s: %s", master.Host, errdefs.ErrUnavailable, response.Status, text)
		}
	}
	return nil, nil, fmt.Errorf("subscribe: %w: more than %d redirects", errdefs.ErrUnavailable, maxRedirects)
}

// subscribe encodes the call. The offer constraints are a field that mesos-go does not know.
func (f Framework) subscribe(id string) ([]byte, error) {
	call := &scheduler.Call{Type: scheduler.Call_SUBSCRIBE}
	if id != "" {
		call.FrameworkID = &mesos.FrameworkID{Value: id}
	}
	body, err := call.Marshal()
	if err != nil {
		return nil, err
	}
	inner, err := (&scheduler.Call_Subscribe{FrameworkInfo: f.info(id)}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(body, constraints.Subscribe(inner, f.AgentRules, f.roles())...), nil
}

// leaderOf reads the Location of a redirect: "//host:port/path". Scheme and path are ours.
func leaderOf(master *url.URL, location string) (*url.URL, error) {
	leader, err := url.Parse(location)
	if err != nil || leader.Host == "" {
		return nil, fmt.Errorf("redirect by %s to %q: %w", master.Host, location, errdefs.ErrUnavailable)
	}
	return &url.URL{Scheme: master.Scheme, Host: leader.Host}, nil
}

// read posts the stream's events until it ends. subscribed tells whether SUBSCRIBED was among them.
func (c *Conn) read(sub *subscription, body io.Reader, watchdog *time.Timer) (subscribed bool, err error) {
	records := bufio.NewReaderSize(body, 64<<10)
	patience := c.cfg.CallTimeout
	for {
		record, err := readRecord(records)
		if err != nil {
			return subscribed, err
		}
		// Should the watchdog have bitten in this moment, then the context is ended and the next read says so.
		watchdog.Reset(patience)
		if len(record) == 0 {
			continue
		}
		var event scheduler.Event
		if err := event.Unmarshal(record); err != nil {
			return subscribed, fmt.Errorf("event of %d bytes: %w", len(record), err)
		}
		if event.Type == scheduler.Event_SUBSCRIBED && !subscribed {
			if patience, err = c.subscribed(sub, event.Subscribed); err != nil {
				return false, err
			}
			watchdog.Reset(patience)
			subscribed = true
			continue
		}
		if err := c.deliver(&event); err != nil {
			return subscribed, err
		}
	}
}

// subscribed begins a subscription and returns how long the stream may be silent.
func (c *Conn) subscribed(sub *subscription, event *scheduler.Event_Subscribed) (time.Duration, error) {
	if event == nil || event.FrameworkID == nil || event.FrameworkID.Value == "" || sub.streamID == "" {
		return 0, fmt.Errorf("SUBSCRIBED without framework id or stream id: %w", errdefs.ErrUnavailable)
	}
	id := event.FrameworkID.Value
	c.mu.Lock()
	known := c.frameworkID
	if known == "" || known == id {
		c.frameworkID, c.sub = id, sub
	}
	c.mu.Unlock()
	if known != "" && known != id {
		return 0, &fatalError{fmt.Errorf("subscribed as framework %s, but the master calls it %s: %w", known, id, errdefs.ErrConflict)}
	}
	beat := 15 * time.Second
	if s := event.HeartbeatIntervalSeconds; s != nil && *s > 0 {
		beat = time.Duration(*s * float64(time.Second))
	}
	glog.Infof("subscribe framework=%s master=%s heartbeat=%s", id, sub.master.Host, beat)
	c.post(core.Subscribed{FrameworkID: id})
	return silentBeats * beat, nil
}

// deliver posts one event. What the core has no word for is logged: an unknown event is never fatal.
func (c *Conn) deliver(event *scheduler.Event) error {
	if glog.V(3) {
		glog.Infof("receive event=%s bytes=%d", event.Type, event.Size())
	}
	switch {
	case event.Type == scheduler.Event_ERROR && event.Error != nil:
		return &fatalError{explain(event.Error.Message, c.id())}
	case event.Type == scheduler.Event_OFFERS && event.Offers != nil:
		c.post(core.Offers{Offers: event.Offers.Offers})
	case event.Type == scheduler.Event_INVERSE_OFFERS && event.InverseOffers != nil:
		c.post(core.InverseOffers{Offers: event.InverseOffers.InverseOffers})
	case event.Type == scheduler.Event_RESCIND && event.Rescind != nil:
		c.post(core.Rescinded{OfferID: event.Rescind.OfferID.Value})
	case event.Type == scheduler.Event_UPDATE && event.Update != nil:
		c.post(core.StatusUpdate{Status: event.Update.Status})
	case event.Type == scheduler.Event_FAILURE && event.Failure != nil && event.Failure.AgentID != nil:
		failure := event.Failure
		if failure.ExecutorID == nil {
			c.post(core.AgentRemoved{AgentID: failure.AgentID.Value})
			break
		}
		var status int32
		if failure.Status != nil {
			status = *failure.Status
		}
		c.post(core.ExecutorFailed{AgentID: failure.AgentID.Value, ExecutorID: failure.ExecutorID.Value, Status: status})
	case event.Type == scheduler.Event_HEARTBEAT:
	default:
		glog.V(1).Infof("ignore event=%s", event.Type)
	}
	return nil
}

// explain turns an ERROR event into an error with the way out. Mesos has no codes here, only texts (master.cpp); a text
// that is not known is told as it is.
func explain(message, frameworkID string) error {
	switch {
	case strings.Contains(message, "Framework has been removed"):
		return fmt.Errorf("framework %s was removed from Mesos and all its tasks have ended; to start as a new framework "+
			"start the scheduler with --forget-framework=%s: %w: %s",
			frameworkID, frameworkID, errdefs.ErrRefused, message)
	case strings.Contains(message, "failed over"):
		return fmt.Errorf("another scheduler subscribed as framework %s; only one may run at a time: %w: %s",
			frameworkID, errdefs.ErrConflict, message)
	}
	return fmt.Errorf("framework %q: %w: %s", frameworkID, errdefs.ErrRefused, message)
}

// readRecord reads one RecordIO record: the length in decimal, a newline, the bytes. An empty record is allowed. EOF
// between records is errEnded, inside of one io.ErrUnexpectedEOF.
func readRecord(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return nil, errEnded
	}
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("record length %q: %w", line, errdefs.ErrInvalid)
	}
	if size > maxRecord {
		return nil, fmt.Errorf("record of %d bytes, %d at most: %w", size, maxRecord, errdefs.ErrInvalid)
	}
	// The length is not believed before the bytes are there: memory grows with what comes.
	var record bytes.Buffer
	if _, err := io.CopyN(&record, r, int64(size)); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return record.Bytes(), nil
}
