package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Digest is the SHA-256 of an archive: 64 lower-case hexadecimal digits.
type Digest string

// ParseDigest checks a digest. The error is errdefs.ErrInvalid.
func ParseDigest(text string) (Digest, error) {
	if len(text) != 2*sha256.Size || strings.Trim(text, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is no SHA-256 in %d lower-case hexadecimal digits: %w", text, 2*sha256.Size, errdefs.ErrInvalid)
	}
	return Digest(text), nil
}

// Short is enough for people to tell bundles apart.
func (d Digest) Short() string { return string(d[:min(len(d), 12)]) }

// Sum is the digest of what was written to a hash of sha256.New.
func Sum(h hash.Hash) Digest { return Digest(hex.EncodeToString(h.Sum(nil))) }

// DigestOf reads a file.
func DigestOf(path string) (Digest, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("bundle archive: %w", err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", fmt.Errorf("read bundle archive %s: %w", path, err)
	}
	return Sum(h), nil
}
