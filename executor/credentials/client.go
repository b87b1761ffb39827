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
	fail := func(kind, err error) (messages.Credentials, error) {
		return messages.Credentials{}, fmt.Errorf("ask scheduler %s for credentials: %w: %w", c.URL, kind, err)
	}
	ask.Version = messages.CredentialsVersion
	body, err := json.Marshal(ask)
	if err != nil {
		return fail(errdefs.ErrInvalid, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+messages.CredentialsPath, bytes.NewReader(body))
	if err != nil {
		return fail(errdefs.ErrInvalid, err)
	}
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: c.tls(), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	// A redirect would carry the token to somebody else.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if errors.Is(err, errdefs.ErrRefused) {
		return fail(errdefs.ErrRefused, err)
	}
	if err != nil {
		return fail(errdefs.ErrUnavailable, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	answer, err := io.ReadAll(io.LimitReader(response.Body, messages.MaxCredentialsBytes+1))
	if err != nil {
		return fail(errdefs.ErrUnavailable, err)
	}
	said := errors.New(response.Status + ": " + strings.TrimSpace(string(answer[:min(len(answer), 500)])))
	switch {
	case response.StatusCode == http.StatusOK:
		return messages.DecodeCredentials(answer)
	case response.StatusCode == http.StatusForbidden:
		return fail(errdefs.ErrRefused, said)
	case response.StatusCode >= 500:
		return fail(errdefs.ErrUnavailable, said)
	}
	return fail(errdefs.ErrInvalid, said)
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
