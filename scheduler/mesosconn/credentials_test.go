package mesosconn

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
)

func secretFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReadCredentials(t *testing.T) {
	good, err := readCredentials("mesopod", secretFile(t, " se cret \n"))
	if err != nil {
		t.Fatal(err)
	}
	if good.secret != " se cret " {
		t.Errorf("secret is %q", good.secret)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, good); strings.Contains(text, "se cret") {
			t.Errorf("%s tells the secret: %s", format, text)
		}
	}
	for name, tc := range map[string]struct{ principal, file string }{
		"no principal": {"", secretFile(t, "x")},
		"colon":        {"a:b", secretFile(t, "x")},
		"no file":      {"a", filepath.Join(t.TempDir(), "none")},
		"empty":        {"a", secretFile(t, "\n")},
	} {
		if _, err := readCredentials(tc.principal, tc.file); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Every request to a master is signed; a refusal ends Run and says what to do without the secret.
func TestAuthentication(t *testing.T) {
	protect := func(m *fakeMaster) {
		inner := m.Config.Handler
		m.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, secret, ok := r.BasicAuth()
			agent := strings.HasSuffix(r.URL.Path, "/flags")
			if agent == ok || !agent && (name != "mesopod" || secret != "right") {
				http.Error(w, "", http.StatusUnauthorized)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	for _, tc := range []struct{ name, secret, text string }{
		{"right", "right", ""},
		{"wrong", "wrong-one", "compare with"},
		{"none", "", "none are configured"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newFakeMaster(t)
			m.registry = "{}"
			protect(m)
			var file string
			if tc.secret != "" {
				file = secretFile(t, tc.secret+"\n")
			}
			h := startAs(t, m.host(), "", file)
			if tc.text == "" {
				next(t, m.streams)
				next(t, h.events)
				if err := h.Revive(t.Context(), core.Revive{Roles: []string{"*"}}); err != nil {
					t.Error(err)
				}
				survey, err := h.Survey(t.Context())
				if err != nil || !survey.Complete {
					t.Errorf("survey %+v, error %v", survey, err)
				}
				return
			}
			err := next(t, h.done)
			if !errors.Is(err, errdefs.ErrRefused) || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "wrong-one") {
				t.Fatalf("got %v", err)
			}
		})
	}
}
