package mesosconn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/golang/glog"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/errdefs"
)

func newRequest(ctx context.Context, master *url.URL, path string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, master.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", mediaType)
	request.Header.Set("Accept", mediaType)
	return request, nil
}

// send makes a call of the subscribed framework and classifies what became of it.
func (c *Conn) send(ctx context.Context, call *scheduler.Call) error {
	sub, id := c.current()
	if sub == nil {
		return fmt.Errorf("%s: not subscribed: %w", call.Type, errdefs.ErrUnavailable)
	}
	call.FrameworkID = &mesos.FrameworkID{Value: id}
	body, err := call.Marshal()
	if err != nil {
		return fmt.Errorf("encode %s: %w: %w", call.Type, errdefs.ErrInvalid, err)
	}
	glog.V(3).Infof("send call=%s bytes=%d", call.Type, len(body))

	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	var reached atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }})
	request, err := newRequest(traced, sub.master, schedulerPath, body)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", call.Type, errdefs.ErrInvalid, err)
	}
	c.credentials.sign(request)
	request.Header.Set(streamHeader, sub.streamID)
	response, err := c.calls.Do(request)
	if err != nil {
		kind := errdefs.ErrUnavailable
		if reached.Load() {
			kind = errdefs.ErrLost
		}
		return fmt.Errorf("%s at %s: %w: %w", call.Type, sub.master.Host, kind, err)
	}
	return sub.judge(call.Type, response)
}

// judge turns the answer to a call into an error with a kind. Answers that mean "this subscription is not the live one"
// end it, so that Run subscribes anew.
func (s *subscription) judge(call scheduler.Call_Type, response *http.Response) error {
	text := bodyText(response)
	kind := errdefs.ErrRefused
	stale := false
	switch code := response.StatusCode; {
	case code == http.StatusOK || code == http.StatusAccepted:
		return nil
	case code == http.StatusTemporaryRedirect, code == http.StatusForbidden:
		kind, stale = errdefs.ErrUnavailable, true
	case code == http.StatusBadRequest && strings.Contains(strings.ToLower(text), "stream id"):
		// A stale stream id has no code of its own in Mesos; the text is all there is.
		kind, stale = errdefs.ErrUnavailable, true
	case code == http.StatusServiceUnavailable:
		kind = errdefs.ErrUnavailable
	case code >= http.StatusInternalServerError:
		kind = errdefs.ErrLost
	}
	err := fmt.Errorf("%s at %s: %w: %s: %s", call, s.master.Host, kind, response.Status, text)
	if stale {
		s.end(err)
	}
	return err
}

// bodyText reads and closes the body of a short answer.
func bodyText(response *http.Response) string {
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil && len(text) == 0 {
		return err.Error() // the status code says enough; this is only for the person who reads the error
	}
	return strings.TrimSpace(string(text))
}
