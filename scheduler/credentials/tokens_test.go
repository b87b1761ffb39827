package credentials

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

var (
	begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a1    = Holder{AgentID: "S1", ExecutorID: "mesopod-executor", Node: "a1"}
)

func keys(n byte) [sha256.Size]byte { return [sha256.Size]byte{n} }

// A token is good for its holder, once, in its time; the store keeps no token.
func TestTokens(t *testing.T) {
	type try struct {
		after  time.Duration
		holder Holder
		keys   byte
		good   bool
	}
	other := func(change func(*Holder)) Holder { h := a1; change(&h); return h }
	for name, tries := range map[string][]try{
		"once":             {{0, a1, 1, true}, {time.Second, a1, 2, false}},
		"answer was lost":  {{0, a1, 1, true}, {time.Second, a1, 1, true}},
		"last moment":      {{5*time.Minute - 1, a1, 1, true}},
		"expired":          {{5 * time.Minute, a1, 1, false}},
		"spent, expired":   {{0, a1, 1, true}, {5 * time.Minute, a1, 1, false}},
		"another agent":    {{0, other(func(h *Holder) { h.AgentID = "S2" }), 1, false}, {0, a1, 1, false}},
		"another node":     {{0, other(func(h *Holder) { h.Node = "a2" }), 1, false}, {0, a1, 1, false}},
		"another executor": {{0, other(func(h *Holder) { h.ExecutorID = "x" }), 1, false}, {0, a1, 1, false}},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := NewTokens(5 * time.Minute)
			token, err := tokens.Mint(begin, rand.Reader, a1)
			if err != nil {
				t.Fatal(err)
			}
			for hash, issued := range tokens.issued {
				if kept := fmt.Sprintf("%s %+v", hash[:], *issued); strings.Contains(kept, token) {
					t.Error("the store holds the token itself")
				}
			}
			for i, try := range tries {
				err := tokens.Redeem(begin.Add(try.after), token, try.holder, keys(try.keys))
				if (err == nil) != try.good || err != nil && !errors.Is(err, errdefs.ErrRefused) {
					t.Errorf("try %d: %v, want good=%v", i, err, try.good)
				}
				if err != nil && strings.Contains(err.Error(), token) {
					t.Errorf("try %d: the error holds the token", i)
				}
			}
		})
	}
}

func TestMint(t *testing.T) {
	tokens := NewTokens(time.Minute)
	first, err := tokens.Mint(begin, rand.Reader, a1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := tokens.Mint(begin, rand.Reader, a1)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(first); err != nil || len(raw) != 32 || first == second {
		t.Errorf("tokens %q and %q, want 32 random bytes each", first, second)
	}
	if _, err := tokens.Mint(begin, bytes.NewReader(make([]byte, 31)), a1); err == nil {
		t.Error("a token is made of too little randomness")
	}
	if err := tokens.Redeem(begin, "", a1, keys(1)); !errors.Is(err, errdefs.ErrRefused) {
		t.Errorf("no token: %v, want ErrRefused", err)
	}
	// The store does not grow with time.
	if _, err := tokens.Mint(begin.Add(time.Hour), rand.Reader, a1); err != nil || tokens.Len() != 1 {
		t.Errorf("%d tokens are kept, %v, want the new one", tokens.Len(), err)
	}
}
