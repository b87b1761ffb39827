package credentials

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// tokenBytes is the randomness of a token.
const tokenBytes = 32

// Holder is whom a token was made for.
type Holder struct{ AgentID, ExecutorID, Node string }

// Tokens knows the tokens that were given out and are still good, by their hashes. It is not safe for concurrent use.
type Tokens struct {
	life   time.Duration
	issued map[[sha256.Size]byte]*issue
}

// issue is one token.
type issue struct {
	holder  Holder
	expires time.Time
	// used is set by the first redemption; keys are those that it was redeemed for.
	used bool
	keys [sha256.Size]byte
}

// NewTokens makes an empty store of tokens that are good for a life.
func NewTokens(life time.Duration) *Tokens {
	return &Tokens{life: life, issued: map[[sha256.Size]byte]*issue{}}
}

// Mint makes a token from random and remembers its hash. The token is URL-safe text.
func (t *Tokens) Mint(now time.Time, random io.Reader, holder Holder) (string, error) {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", fmt.Errorf("make token for agent %s: %w", holder.AgentID, err)
	}
	t.forgetExpired(now)
	token := base64.RawURLEncoding.EncodeToString(secret)
	t.issued[sha256.Sum256([]byte(token))] = &issue{holder: holder, expires: now.Add(t.life)}
	return token, nil
}

// Redeem spends a token. keys is a hash of the public keys that certificates are asked for: the same keys may come again
// until the token expires, since the first answer may have been lost, and a certificate is worth nothing without its key.
// Other keys are refused. A token in the wrong hands is no token any more. The error is errdefs.ErrRefused.
func (t *Tokens) Redeem(now time.Time, token string, claim Holder, keys [sha256.Size]byte) error {
	t.forgetExpired(now)
	hash := sha256.Sum256([]byte(token))
	found := t.issued[hash]
	switch {
	case found == nil:
		return fmt.Errorf("executor on agent %s shows a token that is unknown or expired; the next launch brings a new one: %w", claim.AgentID, errdefs.ErrRefused)
	case found.holder != claim:
		delete(t.issued, hash)
		return fmt.Errorf("executor %s on agent %s, node %s, shows a token of agent %s, node %s: %w",
			claim.ExecutorID, claim.AgentID, claim.Node, found.holder.AgentID, found.holder.Node, errdefs.ErrRefused)
	case found.used && found.keys != keys:
		return fmt.Errorf("executor on agent %s shows a token that was spent for other keys: %w", claim.AgentID, errdefs.ErrRefused)
	}
	found.used, found.keys = true, keys
	return nil
}

// Len is the number of tokens that are known.
func (t *Tokens) Len() int { return len(t.issued) }

func (t *Tokens) forgetExpired(now time.Time) {
	for hash, i := range t.issued {
		if !now.Before(i.expires) {
			delete(t.issued, hash)
		}
	}
}
