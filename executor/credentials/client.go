package credentials

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// askLimit bounds one question; two signatures take the scheduler a second at most.
const askLimit = 45 * time.Second

// Client asks the scheduler.
type Client struct {
	// URL of the scheduler's credentials endpoint, https://HOST:PORT.
	URL string
	// Pin is the SHA-256 of the public key (SubjectPublicKeyInfo) that the scheduler has, or that vouches for it: the
	// envelope brought it, so no authority of the machine is trusted.
	Pin [sha256.Size]byte
	// Certificate is shown when there is one.
	Certificate *tls.Certificate
}

// Ask sends a request. Errors: errdefs.ErrRefused, the scheduler said no, or it is another than was pinned;
// errdefs.ErrInvalid, it did not understand or is not understood; errdefs.ErrUnavailable, worth another try.
func (c Client) Ask(ctx context.Context, ask messages.CredentialsRequest) (messages.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	ask.Version = messages.CredentialsVersion
	body, err := json.Marshal(ask)
	if err != nil {
		return messages.Credentials{}, fmt.Errorf("credentials request: %w: %w", errdefs.ErrInvalid, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+messages.CredentialsPath, bytes.NewReader(body))
	if err != nil {
		return messages.Credentials{}, fmt.Errorf("credentials request: %w: %w", errdefs.ErrInvalid, err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, _, err := c.do(request, messages.MaxCredentialsBytes)
	if err != nil {
		return messages.Credentials{}, fmt.Errorf("ask scheduler %s for credentials: %w", c.URL, err)
	}
	return messages.DecodeCredentials(answer)
}

// Get reads what is at a path, and its tag. Is that the known one still, it waits for another, and returns nothing but the
// known tag after a while. Errors are those of Ask, and errdefs.ErrNotFound.
func (c Client) Get(ctx context.Context, path, known string, wait time.Duration) (body []byte, tag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit+wait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return nil, "", fmt.Errorf("ask scheduler for %s: %w: %w", path, errdefs.ErrInvalid, err)
	}
	if known != "" {
		request.Header.Set("If-None-Match", known)
		request.Header.Set("Prefer", fmt.Sprintf("wait=%d", wait/time.Second))
	}
	body, head, err := c.do(request, messages.MaxExecutorConfigBytes)
	if err != nil {
		return nil, "", fmt.Errorf("ask scheduler %s for %s: %w", c.URL, path, err)
	}
	return body, head.Get("ETag"), nil
}

// do sends a request and reads the answer, of at most most bytes. 304 is an answer without bytes.
func (c Client) do(request *http.Request, most int) ([]byte, http.Header, error) {
	transport := &http.Transport{TLSClientConfig: c.tls(), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	// A redirect would carry the token to somebody else.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if errors.Is(err, errdefs.ErrRefused) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	answer, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	kind := errdefs.ErrInvalid
	switch status := response.StatusCode; {
	case status == http.StatusOK, status == http.StatusNotModified:
		return answer, response.Header, nil
	case status == http.StatusForbidden:
		kind = errdefs.ErrRefused
	case status == http.StatusNotFound:
		kind = errdefs.ErrNotFound
	case status >= 500:
		kind = errdefs.ErrUnavailable
	}
	return nil, nil, fmt.Errorf("%w: %s: %s", kind, response.Status, strings.TrimSpace(string(answer[:min(len(answer), 500)])))
}

// tls trusts the pinned key alone.
func (c Client) tls() *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Replaced by VerifyConnection: there is no name and no authority to check, but a key.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return c.verify(state.PeerCertificates) },
	}
	if c.Certificate != nil {
		config.Certificates = []tls.Certificate{*c.Certificate}
	}
	return config
}

// verify makes sure that the peer has the pinned key itself, or a certificate in a valid chain from one that has it.
func (c Client) verify(chain []*x509.Certificate) error {
	for i, certificate := range chain {
		sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
		if subtle.ConstantTimeCompare(sum[:], c.Pin[:]) != 1 {
			continue
		}
		if i == 0 {
			return nil // the handshake has proved that it has the key
		}
		roots, between := x509.NewCertPool(), x509.NewCertPool()
		roots.AddCert(certificate)
		for _, other := range chain[1:i] {
			between.AddCert(other)
		}
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		if err != nil {
			return fmt.Errorf("the scheduler's certificate: %w: %w", errdefs.ErrRefused, err)
		}
		return nil
	}
	return fmt.Errorf("the scheduler has another key than the launch said: %w", errdefs.ErrRefused)
}
