package messages_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

func sampleAccess() messages.Access {
	return messages.Access{URL: "https://10.89.0.1:9443", KeySHA256: bytes.Repeat([]byte{7}, 32), Token: "t0ken"}
}

// An envelope says the same with and without the scheduler's access: executors of either build read both.
func TestAccess(t *testing.T) {
	plain, err := messages.EncodeLaunch(sampleLaunch())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := messages.AccessOf(plain); ok {
		t.Error("an envelope without access has one")
	}
	whole, err := messages.WithAccess(plain, sampleAccess())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "launch_access.json", whole)
	got, ok := messages.AccessOf(whole)
	if !ok || fmt.Sprintf("%q %q %x", got.URL, got.Token, got.KeySHA256) != fmt.Sprintf("%q %q %x", sampleAccess().URL, sampleAccess().Token, sampleAccess().KeySHA256) {
		t.Errorf("access is %v %t", got, ok)
	}
	with, err := messages.DecodeLaunch(whole)
	if err != nil {
		t.Fatal(err)
	}
	without, err := messages.DecodeLaunch(plain)
	if err != nil {
		t.Fatal(err)
	}
	if with.TaskID != without.TaskID || with.Pod.UID != without.Pod.UID {
		t.Errorf("with access the envelope is %+v", with)
	}
	if text := fmt.Sprintf("%v %+v %s", got, got, got); strings.Contains(text, got.Token) {
		t.Errorf("the token shows in %s", text)
	}
}

func TestAccessFaults(t *testing.T) {
	good, err := messages.EncodeLaunch(sampleLaunch())
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*messages.Access)) messages.Access { a := sampleAccess(); f(&a); return a }
	for name, c := range map[string]struct {
		envelope []byte
		access   messages.Access
	}{
		"no envelope":   {[]byte("junk"), sampleAccess()},
		"plain http":    {good, change(func(a *messages.Access) { a.URL = "http://10.89.0.1:9443" })},
		"with a path":   {good, change(func(a *messages.Access) { a.URL += "/x" })},
		"no key":        {good, change(func(a *messages.Access) { a.KeySHA256 = nil })},
		"huge token":    {good, change(func(a *messages.Access) { a.Token = strings.Repeat("x", 4000) })},
		"empty scheme":  {good, change(func(a *messages.Access) { a.URL = "10.89.0.1:9443" })},
		"key too short": {good, change(func(a *messages.Access) { a.KeySHA256 = a.KeySHA256[:31] })},
	} {
		if _, err := messages.WithAccess(c.envelope, c.access); !errors.Is(err, errdefs.ErrInvalid) || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("%s: %v, want ErrInvalid without the token", name, err)
		}
	}
	for _, text := range []string{"", "{}", "junk", `{"scheduler":{}}`, `{"scheduler":{"url":"https://a:1","keySHA256":"AA=="}}`, `{"scheduler":7}`} {
		if a, ok := messages.AccessOf([]byte(text)); ok {
			t.Errorf("%s has access %v", text, a)
		}
	}
}
