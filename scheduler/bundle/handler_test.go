package bundle

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

const content = "the bytes of an archive"

func open(t *testing.T, transfers int) (*Archive, *httptest.Server) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Open(path, transfers)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(Pattern, a)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	// A release that is put into its place does not change what is served under the old name.
	if err := errors.Join(os.WriteFile(path+".new", []byte("new"), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	return a, server
}

func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func TestServe(t *testing.T) {
	a, server := open(t, 1)
	url := server.URL + Path + "/" + a.Digest()
	tag := `"` + a.Digest() + `"`
	for name, c := range map[string]struct {
		url    string
		header []string
		status int
		body   string
	}{
		"whole":        {url, nil, http.StatusOK, content},
		"rest":         {url, []string{"Range", "bytes=4-"}, http.StatusPartialContent, content[4:]},
		"same":         {url, []string{"If-None-Match", tag}, http.StatusNotModified, ""},
		"rest of same": {url, []string{"Range", "bytes=4-", "If-Range", tag}, http.StatusPartialContent, content[4:]},
		"past the end": {url, []string{"Range", "bytes=100-"}, http.StatusRequestedRangeNotSatisfiable, "invalid range: failed to overlap\n"},
		"other":        {server.URL + Path + "/abc", nil, http.StatusNotFound, "bundle \"abc\" is not served here, " + a.Digest() + " is\n"},
	} {
		answer, body := get(t, c.url, c.header...)
		if answer.StatusCode != c.status || body != c.body {
			t.Errorf("%s: %s %q", name, answer.Status, body)
		}
	}
	if a.running != 0 {
		t.Errorf("%d transfers go on", a.running)
	}
}

// No more transfers go on than may, all others are told when to come back, and a place that became free is taken.
func TestBusy(t *testing.T) {
	a, server := open(t, 2)
	url := server.URL + Path + "/" + a.Digest()
	for range 2 {
		if _, ok := a.begin(time.Now()); !ok {
			t.Fatal("no place")
		}
	}
	answer, _ := get(t, url)
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if answer.StatusCode != http.StatusServiceUnavailable || err != nil || seconds < 1 {
		t.Errorf("%s, Retry-After %d, error %v", answer.Status, seconds, err)
	}
	a.end(time.Second)
	if answer, body := get(t, url); answer.StatusCode != http.StatusOK || body != content {
		t.Errorf("%s %q", answer.Status, body)
	}
}

// The longer the line, the later a keeper is told to come back, within bounds; a line that is gone is forgotten.
func TestWait(t *testing.T) {
	a := &Archive{transfers: 10, usual: firstGuess}
	now := time.Now()
	for range 10 {
		a.begin(now)
	}
	last := time.Duration(0)
	for i := range 5000 {
		wait, ok := a.begin(now)
		if ok || wait < last || wait < time.Second || wait > longestWait {
			t.Fatalf("keeper %d: place %v, wait %s after %s", i, ok, wait, last)
		}
		last = wait
	}
	if last != longestWait {
		t.Errorf("the last of 5000 waits %s", last)
	}
	if wait, _ := a.begin(now.Add(memory + time.Second)); wait != firstGuess {
		t.Errorf("later: wait %s", wait)
	}
	for range 20 {
		a.end(100 * time.Millisecond)
		a.begin(now)
	}
	if wait, _ := a.begin(now.Add(2 * memory)); wait != time.Second {
		t.Errorf("fast transfers: wait %s", wait)
	}
}

// A thousand keepers that obey all get the archive, with a few places.
func TestThousandKeepers(t *testing.T) {
	a, server := open(t, 4)
	url := server.URL + Path + "/" + a.Digest()
	var group sync.WaitGroup
	gates := make(chan struct{}, 64)
	for range 1000 {
		group.Go(func() {
			for {
				gates <- struct{}{}
				answer, body := get(t, url)
				<-gates
				if answer.StatusCode == http.StatusOK {
					if body != content {
						t.Errorf("got %q", body)
					}
					return
				}
				if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
					t.Errorf("%s %q", answer.Status, body)
					return
				}
			}
		})
	}
	group.Wait()
	if a.running != 0 {
		t.Errorf("%d transfers go on", a.running)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none"), 1); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open("/dev/null", 0); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("no transfers: %v", err)
	}
}
