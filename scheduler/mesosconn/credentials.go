package mesosconn

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// credentials are what the master's basic HTTP authenticator asks for (flags --authenticate_http_frameworks and
// --credentials of the master). The zero value sends nothing. They go to masters only, never to agents.
type credentials struct {
	// principal is the one of FrameworkInfo: the master refuses SUBSCRIBE as another.
	principal, secret string
}

// String keeps the secret out of logs, with %v as with %+v.
func (c credentials) String() string { return fmt.Sprintf("credentials of principal %q", c.principal) }

// GoString keeps the secret out of %#v.
func (c credentials) GoString() string { return c.String() }

// credentials reads those that the configuration names, none if it names none.
func (c Config) credentials() (credentials, error) {
	if c.SecretFile == "" {
		return credentials{}, nil
	}
	return readCredentials(c.Framework.Principal, c.SecretFile)
}

// readCredentials takes the secret from a file; a line end after it is not part of it. The error is errdefs.ErrInvalid
// and never holds the secret.
func readCredentials(principal, file string) (credentials, error) {
	if principal == "" || strings.Contains(principal, ":") {
		return credentials{}, fmt.Errorf("secret file %s without a principal, or with one that has a colon: %w", file, errdefs.ErrInvalid)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return credentials{}, fmt.Errorf("secret of principal %s: %w: %w", principal, errdefs.ErrInvalid, err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return credentials{}, fmt.Errorf("secret of principal %s: %w: %w", principal, errdefs.ErrInvalid, errors.New("the file "+file+" is empty"))
	}
	return credentials{principal: principal, secret: secret}, nil
}

func (c credentials) sign(request *http.Request) {
	if c.principal != "" {
		request.SetBasicAuth(c.principal, c.secret)
	}
}

// advice tells what to do about an answer 401 to SUBSCRIBE.
func (c credentials) advice() string {
	if c.principal == "" {
		return "the master wants credentials and none are configured; name a principal and the file of its secret"
	}
	return fmt.Sprintf("the master does not know principal %q with this secret; compare with the file of its flag --credentials", c.principal)
}
