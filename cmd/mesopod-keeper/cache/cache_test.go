package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/bundle"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// made is an archive in a folder of archives.
type made struct {
	base   string
	digest bundle.Digest
	data   []byte
}

// makeBundle packs a bundle of some bytes that do not compress.
func makeBundle(t *testing.T, size int) made {
	t.Helper()
	dir := t.TempDir()
	text := make([]byte, size)
	source := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8)})
	_, _ = source.Read(text) // it never fails
	if err := os.WriteFile(filepath.Join(dir, "mesopod"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	m := made{base: t.TempDir()}
	var err error
	if m.digest, err = bundle.Create(dir, m.base); err != nil {
		t.Fatal(err)
	}
	if m.data, err = os.ReadFile(filepath.Join(m.base, string(m.digest))); err != nil {
		t.Fatal(err)
	}
	return m
}

// newCache is a cache that does not wait.
func newCache(t *testing.T, dir string) *Cache {
	t.Helper()
	c := New(dir, DefaultLimit, t.Output())
	c.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return c
}

// check makes sure that the bundle is there, complete, and held, and nothing beside it.
func check(t *testing.T, c *Cache, held *Held, size int) {
	t.Helper()
	info, err := os.Stat(filepath.Join(held.Dir, "mesopod"))
	if err != nil || info.Size() != int64(size) || info.Mode() != 0o755 {
		t.Errorf("the program is %v, error %v", info, err)
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the cache has %v, error %v; want the bundle and its lock", entries, err)
	}
	if lock, err := c.tryLock(held.Digest, unix.LOCK_EX); lock != nil || err != nil {
		t.Errorf("the bundle is not held: %v, error %v", lock, err)
	}
}

func TestFromFolder(t *testing.T) {
	m := makeBundle(t, 3<<20)
	c := newCache(t, filepath.Join(t.TempDir(), "bundles"))
	held, err := c.Acquire(t.Context(), m.digest, []string{"/no/such/folder", m.base})
	if err != nil {
		t.Fatal(err)
	}
	check(t, c, held, 3<<20)
	// What is there needs no source.
	again, err := newCache(t, c.Dir).Acquire(t.Context(), m.digest, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(held.Release(), again.Release()); err != nil {
		t.Error(err)
	}
}

// faulty is a server that has some bad ways, drawn for each request, until it runs out of them.
type faulty struct {
	made
	mu     sync.Mutex
	rand   *rand.Rand
	faults int
	// honest are the faults that spoil no byte.
	honest bool
	// sent counts bytes of archives.
	sent atomic.Int64
}

func (f *faulty) draw() (fault int, at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults == 0 {
		return -1, 0
	}
	f.faults--
	kinds := 8
	if f.honest {
		kinds = 3
	}
	return f.rand.IntN(kinds), f.rand.IntN(len(f.data))
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first := 0
	if text := r.Header.Get("Range"); text != "" {
		_, _ = fmt.Sscanf(text, "bytes=%d-", &first) // the client is ours
	}
	if first >= len(f.data) {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	fault, at := f.draw()
	data := append([]byte{}, f.data...)
	switch fault {
	case 0:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 1, 2: // cut
		if at <= first {
			panic(http.ErrAbortHandler)
		}
		f.answer(w, data[:at], len(data), first)
		panic(http.ErrAbortHandler)
	case 3: // one wrong byte
		data[at] ^= 1
	case 4: // deaf to Range
		first = 0
	case 5: // an error
		w.WriteHeader(http.StatusInternalServerError)
		return
	case 6: // another range than asked for
		if first > 0 {
			first--
		}
	case 7: // says that there is no such byte
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	f.answer(w, data, len(data), first)
}

// answer sends data from a byte on, and says that there are total.
func (f *faulty) answer(w http.ResponseWriter, data []byte, total, first int) {
	w.Header().Set("Content-Length", fmt.Sprint(total-first))
	if first > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, total-1, total))
		w.WriteHeader(http.StatusPartialContent)
	}
	n, _ := w.Write(data[first:]) // the client may be gone
	f.sent.Add(int64(n))
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Whatever a server does, in the end the bundle is there and right; and when it only cuts and refuses, no byte is sent
// twice.
func TestFaultyServer(t *testing.T) {
	const size = 300_000
	m := makeBundle(t, size)
	for seed := range uint64(60) {
		f := &faulty{made: m, rand: rand.New(rand.NewPCG(seed, 1)), faults: int(seed % 13), honest: seed%2 == 0}
		server := httptest.NewServer(f)
		server.Config.ErrorLog = nil
		c := newCache(t, t.TempDir())
		held, err := c.Acquire(t.Context(), m.digest, []string{server.URL + "/v1/bundle/"})
		server.Close()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		check(t, c, held, size)
		if err := held.Release(); err != nil {
			t.Error(err)
		}
		if sent := f.sent.Load(); f.honest && sent != int64(len(m.data)) {
			t.Errorf("seed %d: sent %d bytes of %d", seed, sent, len(m.data))
		}
	}
}

// A keeper that is ended in the middle leaves what it has to the next one; one that was ended before it unpacked, all.
func TestGoesOn(t *testing.T) {
	m := makeBundle(t, 300_000)
	for _, there := range []int{1, len(m.data) / 2, len(m.data) - 1, len(m.data)} {
		f := &faulty{made: m}
		server := httptest.NewServer(f)
		c := newCache(t, t.TempDir())
		if err := errors.Join(os.WriteFile(c.path(m.digest, partSuffix), m.data[:there], 0o600), os.MkdirAll(c.path(m.digest, unpackSuffix)+"/d", 0o700)); err != nil {
			t.Fatal(err)
		}
		held, err := c.Acquire(t.Context(), m.digest, []string{server.URL})
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		check(t, c, held, 300_000)
		if sent := f.sent.Load(); sent != int64(len(m.data)-there) {
			t.Errorf("%d of %d bytes were there, and %d were sent", there, len(m.data), sent)
		}
	}
	// Longer than the whole: somebody else's bytes.
	f := &faulty{made: m}
	server := httptest.NewServer(f)
	defer server.Close()
	for _, source := range []string{server.URL, m.base} {
		c := newCache(t, t.TempDir())
		if err := os.WriteFile(c.path(m.digest, partSuffix), append(m.data, 0), 0o600); err != nil {
			t.Fatal(err)
		}
		held, err := c.Acquire(t.Context(), m.digest, []string{source})
		if err != nil {
			t.Fatal(err)
		}
		check(t, c, held, 300_000)
	}
}

// Keepers of several frameworks that start at once on one host download once.
func TestManyKeepers(t *testing.T) {
	m := makeBundle(t, 2<<20)
	f := &faulty{made: m}
	server := httptest.NewServer(f)
	defer server.Close()
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			// Each opens the lock for itself, so flock tells them apart as it does processes.
			held, err := newCache(t, dir).Acquire(t.Context(), m.digest, []string{server.URL})
			if err != nil {
				t.Error(err)
			} else if _, err := os.Stat(filepath.Join(held.Dir, "mesopod")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if sent := f.sent.Load(); sent != int64(len(m.data)) {
		t.Errorf("sent %d bytes, one archive has %d", sent, len(m.data))
	}
}

// Waiting for another keeper ends with ctx.
func TestWaitEnds(t *testing.T) {
	m := makeBundle(t, 10)
	c := newCache(t, t.TempDir())
	other, err := c.tryLock(m.digest, unix.LOCK_EX)
	if err != nil || other == nil {
		t.Fatal(other, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Acquire(ctx, m.digest, []string{m.base}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// A busy server is asked again after the time that it names and chance on top; a dead one less and less often.
func TestPauses(t *testing.T) {
	m := makeBundle(t, 1000)
	f := &faulty{made: m, rand: rand.New(rand.NewPCG(0, 0)), faults: 1000, honest: true}
	busyServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer busyServer.Close()
	deadServer := httptest.NewServer(f)
	deadServer.Close()
	for name, law := range map[string]struct {
		base  string
		holds func(try int, length time.Duration) bool
	}{
		"busy": {busyServer.URL, func(_ int, length time.Duration) bool { return length >= 7*time.Second && length <= 16*time.Second }},
		"dead": {deadServer.URL, func(try int, length time.Duration) bool {
			most := min(firstPause<<min(try, 10), lastPause)
			return length >= most/2 && length <= most
		}},
	} {
		c := newCache(t, t.TempDir())
		tries := 0
		enough := errors.New("enough")
		c.pause = func(_ context.Context, length time.Duration) error {
			if !law.holds(tries, length) {
				t.Errorf("%s: pause %d is %s", name, tries, length)
			}
			if tries++; tries == 12 {
				return enough
			}
			return nil
		}
		if _, err := c.Acquire(t.Context(), m.digest, []string{law.base}); !errors.Is(err, enough) || !errors.Is(err, errdefs.ErrUnavailable) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Where no source has the right thing the keeper gives up and says what each of them said.
func TestHopeless(t *testing.T) {
	m, other := makeBundle(t, 1000), makeBundle(t, 2000)
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	wrong := t.TempDir()
	if err := os.WriteFile(filepath.Join(wrong, string(m.digest)), other.data, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCache(t, t.TempDir())
	_, err := c.Acquire(t.Context(), m.digest, []string{nothing.URL, wrong})
	for _, word := range []string{"404", "SHA-256", nothing.URL, wrong} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not tell %s", err, word)
		}
	}
	if _, err := c.Acquire(t.Context(), m.digest, nil); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("without sources: %v", err)
	}
	// The right archive of something that is no bundle.
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("no bundle"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest, err := bundle.DigestOf(garbage)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(garbage, filepath.Join(filepath.Dir(garbage), string(digest))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(t.Context(), digest, []string{filepath.Dir(garbage)}); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("no bundle: %v", err)
	}
	if _, err := os.Stat(c.path(digest, "")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is taken for one: %v", err)
	}
}

// Bundles that nobody uses go, those used longest ago first, when they are too many; those in use stay.
func TestCollect(t *testing.T) {
	c := newCache(t, t.TempDir())
	bring := func(size int) *Held {
		m := makeBundle(t, size)
		held, err := c.Acquire(t.Context(), m.digest, []string{m.base})
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	used, oldest, newest := bring(100_000), bring(101_000), bring(102_000)
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(oldest.lock.Name(), long, long), oldest.Release(), newest.Release(),
		os.WriteFile(c.path(bundle.Digest(strings.Repeat("0", 64)), partSuffix), make([]byte, 50_000), 0o600), // somebody gave up long ago
		os.Chtimes(c.path(bundle.Digest(strings.Repeat("0", 64)), partSuffix), long, long),
		os.WriteFile(filepath.Join(c.Dir, "README"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	c.Limit = 110_000
	now := bring(103_000)
	for name, one := range map[string]struct {
		held *Held
		want bool
	}{"in use": {used, true}, "oldest": {oldest, false}, "newest": {newest, true}, "just brought": {now, true}} {
		if _, err := os.Stat(one.held.Dir); (err == nil) != one.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(c.Dir, "*"))
	if err != nil || len(left) != 7 {
		t.Errorf("left are %v, error %v; want three bundles with their locks, and the file that is none of ours", left, err)
	}
}

// A full disk is told as one, with the way out, and not made fuller; bundles that nobody uses make room before.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := newCache(t, dir)
	small, large, huge := makeBundle(t, 1<<20), makeBundle(t, 3<<19), makeBundle(t, 3<<20)
	first, err := c.Acquire(t.Context(), small.digest, []string{small.base})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]made{"fits": large, "archive alone": makeBundle(t, 5<<20), "archive and what is in it": huge} {
		if name == "fits" {
			held, err := c.Acquire(t.Context(), m.digest, []string{m.base})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if err := held.Release(); err != nil {
				t.Error(err)
			}
			continue
		}
		_, err := c.Acquire(t.Context(), m.digest, []string{m.base})
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "--bundle-cache") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v", name, err)
		}
		for _, suffix := range []string{"", partSuffix, unpackSuffix} {
			if _, err := os.Stat(c.path(m.digest, suffix)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: there still is %s", name, c.path(m.digest, suffix))
			}
		}
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	// Now it may go, and must.
	last := makeBundle(t, 5<<19)
	held, err := c.Acquire(t.Context(), last.digest, []string{last.base})
	if err != nil {
		t.Fatal(err)
	}
	check(t, c, held, 5<<19)
}
