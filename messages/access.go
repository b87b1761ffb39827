package messages

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Access is how an executor reaches the scheduler: a part of the launch envelope, written just before the launch is sent.
// An envelope of a scheduler that serves no executors has none, and an executor of an earlier build does not look at it.
type Access struct {
	// URL is https://HOST:PORT; the paths below it are CredentialsPath and the others of this package.
	URL string `json:"url"`
	// KeySHA256 is the SHA-256 of the public key (SubjectPublicKeyInfo) that the scheduler has there, or that vouches for it.
	KeySHA256 []byte `json:"keySHA256"`
	// Token buys the executor's first certificates, once and within minutes. It is a secret until then.
	Token string `json:"token,omitempty"`
}

// maxAccessBytes is what an Access may add to an envelope.
const maxAccessBytes = 2 << 10

// String leaves the token out, so that no log has it.
func (a Access) String() string { return fmt.Sprintf("%s key %.4x", a.URL, a.KeySHA256) }

func (a Access) check() error {
	if u, err := url.Parse(a.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" {
		return fmt.Errorf("launch envelope: scheduler.url %q is not https://HOST:PORT", a.URL)
	}
	if len(a.KeySHA256) != sha256.Size {
		return fmt.Errorf("launch envelope: scheduler.keySHA256 has %d bytes, %d are needed", len(a.KeySHA256), sha256.Size)
	}
	return nil
}

// WithAccess puts an Access into an encoded envelope that has none; nothing else of it is touched. The error is
// errdefs.ErrInvalid and has no token in it.
func WithAccess(envelope []byte, a Access) ([]byte, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
	}
	access, err := json.Marshal(a)
	if err != nil || len(access) > maxAccessBytes-len(`"scheduler":,`) {
		return nil, fmt.Errorf("launch envelope: scheduler %s does not fit: %w", a, errdefs.ErrInvalid)
	}
	if len(envelope) < len(`{"version":1}`) || envelope[0] != '{' {
		return nil, fmt.Errorf("launch envelope: %w: %w", ErrEncoding, errdefs.ErrInvalid)
	}
	whole := make([]byte, 0, len(envelope)+maxAccessBytes)
	whole = append(whole, `{"scheduler":`...)
	whole = append(whole, access...)
	whole = append(whole, ',')
	return append(whole, envelope[1:]...), nil
}

// AccessOf reads the Access of an envelope, whatever else is in it; false if it has no good one.
func AccessOf(envelope []byte) (Access, bool) {
	var l struct {
		Scheduler *Access `json:"scheduler"`
	}
	if len(envelope) > MaxLaunchBytes || json.Unmarshal(envelope, &l) != nil || l.Scheduler == nil || l.Scheduler.check() != nil {
		return Access{}, false
	}
	return *l.Scheduler, true
}
