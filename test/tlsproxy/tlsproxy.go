// Package tlsproxy puts https before a Mesos program, for tests: the build of Mesos for tests has no TLS.
package tlsproxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File is its certificate in PEM.
	File string
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority with files in dir.
func NewAuthority(dir string) (*Authority, error) {
	a := &Authority{dir: dir}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.File, err = a.write("ca.crt", "CERTIFICATE", der)
	return a, err
}

func (a *Authority) write(name, kind string, der []byte) (string, error) {
	file := filepath.Join(a.dir, name)
	return file, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// Issue makes a certificate for servers and clients, named after its file, which ends at some time and is for these host
// names and addresses.
func (a *Authority) Issue(name string, end time.Time, hosts ...string) (certFile, keyFile string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			form.IPAddresses = append(form.IPAddresses, ip)
		} else {
			form.DNSNames = append(form.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", "", err
	}
	if keyFile, err = a.write(name+".key", "EC PRIVATE KEY", secret); err != nil {
		return "", "", err
	}
	certFile, err = a.write(name+".crt", "CERTIFICATE", der)
	return certFile, keyFile, err
}

// Proxy passes what comes by https to a server that speaks http.
type Proxy struct {
	// Address is host:port at which it listens.
	Address string
	server  *http.Server
	ended   chan error
}

// Start runs a proxy at listen, host:port, before target, host:port. Where clients is an authority, only who shows a
// certificate of it is let through.
func Start(listen, target, certFile, keyFile string, clients *Authority) (*Proxy, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AddCert(clients.cert)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: target}) },
		ErrorLog:      log.New(io.Discard, "", 0),
		FlushInterval: -1, // events are passed on as they come
		Transport:     &http.Transport{DisableCompression: true},
	}
	p := &Proxy{Address: listener.Addr().String(), server: &http.Server{Handler: whole(proxy), TLSConfig: config, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}, ended: make(chan error, 1)}
	p.server.RegisterOnShutdown(proxy.Transport.(*http.Transport).CloseIdleConnections)
	go func() { p.ended <- p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// whole passes requests on once they are there as a whole. A proxy that passes on what comes, as it comes, may break an
// answer that begins while it still looks for the request's end (golang.org/issue/40747), and a stream is such an answer.
func whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// Stop cuts all connections.
func (p *Proxy) Stop() error {
	err := p.server.Close()
	_ = p.server.Shutdown(context.Background()) // for what is registered; it is closed already
	if ended := <-p.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
