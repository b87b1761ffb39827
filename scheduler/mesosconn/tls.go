package mesosconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// TLS is how to speak https to masters, and to agents. The zero value knows the authorities of the system, and shows no
// certificate.
type TLS struct {
	// CAFile has the authorities, in PEM, that certificates of masters and agents are signed by.
	CAFile string
	// CertFile and KeyFile are the client's certificate and its key, in PEM, read anew for each connection. Both or none.
	CertFile, KeyFile string
	// ServerName is the name that the masters' certificate has, where it is not that of their addresses.
	ServerName string
}

// set tells whether anything is configured: then https is what is meant where no scheme is named.
func (t TLS) set() bool { return t != TLS{} }

// Check tells what is wrong with the combination.
func (t TLS) Check() error {
	if (t.CertFile == "") != (t.KeyFile == "") {
		return errors.New("a client certificate needs its key, and a key its certificate")
	}
	return nil
}

// config reads the files, to find fault with them now. The error is errdefs.ErrInvalid.
func (t TLS) config() (*tls.Config, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("TLS to the master: %w: %w", errdefs.ErrInvalid, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("authority of the master: %w: %w", errdefs.ErrInvalid, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authority of the master: %w: %s has no certificate in PEM", errdefs.ErrInvalid, t.CAFile)
		}
	}
	if t.CertFile != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("client certificate for the master: %w: %w", errdefs.ErrInvalid, err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return c, nil
}

// clients are of one configuration; the agents' has no server name.
func (t TLS) clients() (masters func() *http.Client, agents *http.Client, err error) {
	config, err := t.config()
	if err != nil {
		return nil, nil, err
	}
	agents = newClient(config.Clone())
	config.ServerName = t.ServerName
	return func() *http.Client { return newClient(config.Clone()) }, agents, nil
}

func newClient(config *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if at, is := ctx.Value(dialAt{}).(string); is {
					address = at
				}
				return dialer.DialContext(ctx, network, address)
			},
			TLSClientConfig:     config,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     time.Minute,
			// The stream is read as it comes, and a compressed one comes late.
			DisableCompression: true,
		},
		// A redirect names the leader, which is remembered: it is followed by hand.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dialAt is the key of a context's address, host:port, that is dialled in place of the URL's: an agent is known by its
// host name and reached at its address.
type dialAt struct{}

// explainTransport adds to an error of the transport what to do about it, where that is known.
func explainTransport(err error, scheme string) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var expired x509.CertificateInvalidError
	text := err.Error()
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("%w; compare masterCAFile with who signed the server's certificate", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w; set masterServerName to the name in the certificate, if it is the right server", err)
	case errors.As(err, &expired) && expired.Reason == x509.Expired:
		return fmt.Errorf("%w; renew the server's certificate, or set the clock right", err)
	case strings.Contains(text, "server gave HTTP response to HTTPS client"), strings.Contains(text, "does not look like a TLS handshake"):
		return fmt.Errorf("%w; the server speaks http: write http in master, without masterCAFile and its like", err)
	case strings.Contains(text, "remote error: tls:"):
		return fmt.Errorf("%w; the server wants another client certificate: see masterCertFile", err)
	case scheme == "http" && (errors.Is(err, io.EOF) || strings.Contains(text, "malformed HTTP")):
		return fmt.Errorf("%w; if the server speaks https, write https in master", err)
	}
	return err
}
