package cache

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mesopod/mesopod/internal/bundle"
	"github.com/mesopod/mesopod/internal/errdefs"
)

const (
	dialTimeout = 5 * time.Second
	// silence is how long a source may send nothing.
	silence = 20 * time.Second
	// defaultBusy and longestBusy bound what a busy source may ask for.
	defaultBusy, longestBusy = time.Second, time.Minute
)

// CheckSource tells whether a source can be one: the absolute path of a folder, or an http(s) URL of one.
func CheckSource(base string) error {
	if filepath.IsAbs(base) || strings.HasPrefix(base, "http://") || strings.HasPrefix(base, "https://") {
		return nil
	}
	return fmt.Errorf("bundle source %q is neither an absolute path nor an http(s) URL: %w", base, errdefs.ErrInvalid)
}

// open begins with the archive where the part ends, and tells how many bytes the whole has. A source that begins at the
// start makes the part empty.
func open(ctx context.Context, base string, digest bundle.Digest, p *partial) (body io.ReadCloser, total int64, err error) {
	if filepath.IsAbs(base) {
		return openFile(filepath.Join(base, string(digest)), p)
	}
	return openURL(ctx, strings.TrimSuffix(base, "/")+"/"+string(digest), p)
}

func openFile(path string, p *partial) (io.ReadCloser, int64, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errdefs.ErrNotFound, err)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < p.size {
		err = p.restart()
	}
	if err == nil {
		_, err = file.Seek(p.size, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// client goes to hosts of ours, so it knows no proxy. It does not check who answers: the digest came by way of Mesos, and
// what does not match it is thrown away; nothing is sent that others must not see.
var client = &http.Client{Transport: &http.Transport{
	DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
	TLSClientConfig:       &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	TLSHandshakeTimeout:   silence,
	ResponseHeaderTimeout: silence,
	DisableCompression:    true,
	DisableKeepAlives:     true,
}}

func openURL(ctx context.Context, url string, p *partial) (io.ReadCloser, int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		cancel()
		return nil, 0, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
	}
	if p.size > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
	}
	answer, err := client.Do(request)
	if err != nil {
		cancel()
		return nil, 0, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	total, err := accept(answer, p)
	if err != nil {
		err = errors.Join(err, answer.Body.Close())
		cancel()
		return nil, 0, err
	}
	return &watched{body: answer.Body, cancel: cancel, timer: time.AfterFunc(silence, cancel)}, total, nil
}

// accept tells the size of the whole from an answer that goes on with the part, and what is wrong with any other one.
func accept(answer *http.Response, p *partial) (int64, error) {
	switch answer.StatusCode {
	case http.StatusOK:
		if answer.ContentLength < 0 {
			return 0, fmt.Errorf("the answer does not tell its size: %w", errdefs.ErrInvalid)
		}
		return answer.ContentLength, p.restart()
	case http.StatusPartialContent:
		text := answer.Header.Get("Content-Range")
		var first, last, total int64
		if n, err := fmt.Sscanf(text, "bytes %d-%d/%d", &first, &last, &total); n != 3 || err != nil || first != p.size || last != total-1 {
			return 0, errors.Join(fmt.Errorf("asked from byte %d on, got range %q: %w", p.size, text, errdefs.ErrInvalid), p.restart())
		}
		return total, nil
	case http.StatusRequestedRangeNotSatisfiable:
		// The part is as long as the whole, or longer. Either way it was no good.
		return 0, errors.Join(fmt.Errorf("it has no byte %d: %w", p.size, errdefs.ErrUnavailable), p.restart())
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return 0, busy{after: retryAfter(answer.Header.Get("Retry-After")), why: fmt.Errorf("busy (%s): %w", answer.Status, errdefs.ErrUnavailable)}
	case http.StatusNotFound, http.StatusGone:
		return 0, fmt.Errorf("%s: %w", answer.Status, errdefs.ErrNotFound)
	}
	kind := errdefs.ErrRefused
	if answer.StatusCode >= http.StatusInternalServerError {
		kind = errdefs.ErrUnavailable
	}
	return 0, fmt.Errorf("%s: %w", answer.Status, kind)
}

// retryAfter reads the header's seconds. Its other form, a date, nobody sends us.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(header))
	if err != nil || seconds < 0 {
		return defaultBusy
	}
	return min(time.Duration(seconds)*time.Second, longestBusy)
}

// watched is a body that ends with an error when nothing comes.
type watched struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
}

func (w *watched) Read(buffer []byte) (int, error) {
	w.timer.Reset(silence)
	return w.body.Read(buffer)
}

func (w *watched) Close() error {
	w.timer.Stop()
	err := w.body.Close()
	w.cancel()
	return err
}
