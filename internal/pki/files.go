package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ServiceAccountKey returns the file of the key that signs service account
// tokens, sa.key in dir, and makes it if it is missing. Tokens of an earlier
// run stay valid because the key is kept.
func ServiceAccountKey(dir string) (string, error) {
	if err := privateDir(dir); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "sa.key")
	data, err := os.ReadFile(file)
	if err == nil {
		block, _ := pem.Decode(data)
		if block == nil {
			return "", fmt.Errorf("load service account key: no PEM in %s: remove it to make a new one", file)
		}
		if _, err := x509.ParseECPrivateKey(block.Bytes); err != nil {
			return "", fmt.Errorf("load service account key %s: %w", file, err)
		}
		return file, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("load service account key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make service account key: %w", err)
	}
	if err := storeKey(file, key); err != nil {
		return "", fmt.Errorf("store service account key: %w", err)
	}
	return file, nil
}

// privateDir makes dir, and makes sure that only its owner can look into it.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder for keys: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("close folder for keys: %w", err)
	}
	return nil
}

// loadPair reads a certificate and its key and makes sure they belong together.
func loadPair(certFile, keyFile string) (*x509.Certificate, crypto.Signer, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s and its key: %w", certFile, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("read %s: a %T cannot sign", keyFile, pair.PrivateKey)
	}
	return pair.Leaf, key, nil
}

// storePair writes the key, then the certificate: whoever finds the
// certificate finds its key.
func storePair(certFile, keyFile string, der []byte, key *ecdsa.PrivateKey) error {
	if err := storeKey(keyFile, key); err != nil {
		return err
	}
	return storeFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func storeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	return storeFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// storeFile writes a file of mode 0600 so that a reader sees the old text or
// the new one, never a part.
func storeFile(file string, data []byte) (retErr error) {
	// CreateTemp makes the file with mode 0600.
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() {
		if retErr != nil {
			// The first error is the one worth telling.
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
