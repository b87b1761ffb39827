package cache

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/bundle"
	"github.com/mesopod/mesopod/internal/errdefs"
)

const (
	// firstPause doubles with each round of all sources up to lastPause. A round that brought bytes begins anew.
	firstPause, lastPause = 250 * time.Millisecond, 15 * time.Second
	// hopelessRounds is after how many rounds in which each source said a clear no the keeper gives up.
	hopelessRounds = 3
	// tellEvery is the time between two lines about the progress.
	tellEvery = 2 * time.Second
)

// busy is a source that names the time after which it wants to be asked again.
type busy struct {
	after time.Duration
	why   error
}

func (b busy) Error() string { return fmt.Sprintf("%v, come back in %s", b.why, b.after) }
func (b busy) Unwrap() error { return b.why }

// partial is the archive as far as it has come.
type partial struct {
	file *os.File
	hash hash.Hash
	size int64
}

// fetch completes the archive and checks it. After an error what has come stays, for the next try.
func (c *Cache) fetch(ctx context.Context, digest bundle.Digest, sources []string) (err error) {
	if len(sources) == 0 {
		return fmt.Errorf("there is no source to fetch it from: %w", errdefs.ErrInvalid)
	}
	p, err := openPartial(c.path(digest, partSuffix))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.file.Close()) }()
	if bundle.Sum(p.hash) == digest {
		return nil // whoever brought it did not live to unpack it
	}
	if p.size > 0 {
		c.say("go on with bundle %s after %d MB", digest.Short(), p.size>>20)
	}
	var wait time.Duration
	hopeless := 0
	for {
		before := p.size
		faults, after, done := c.round(ctx, digest, sources, p)
		if done {
			return nil
		}
		err := errors.Join(faults...)
		if errors.Is(err, unix.ENOSPC) || ctx.Err() != nil {
			return err
		}
		if hopeless = nextHopeless(hopeless, faults); hopeless == hopelessRounds {
			return err
		}
		wait = min(2*wait, lastPause)
		if wait == 0 || p.size > before {
			wait = firstPause
		}
		// Thousands begin at once: the one half is chance.
		length := max(wait/2, after) + rand.N(max(wait, after)/2+1)
		c.say("bundle %s: try again in %.1f s: %v", digest.Short(), length.Seconds(), oneLine(err))
		if stopped := c.pause(ctx, length); stopped != nil {
			return errors.Join(stopped, err)
		}
	}
}

// nextHopeless counts rounds in a row in which each source gave a no that asking again will hardly change.
func nextHopeless(rounds int, faults []error) int {
	for _, err := range faults {
		if !errors.Is(err, errdefs.ErrNotFound) && !errors.Is(err, errdefs.ErrInvalid) && !errors.Is(err, errdefs.ErrRefused) {
			return 0
		}
	}
	return rounds + 1
}

// round asks one source after the other to complete the archive. Else it tells each one's fault, and the shortest time
// after which a busy one wants to be asked.
func (c *Cache) round(ctx context.Context, digest bundle.Digest, sources []string, p *partial) (faults []error, after time.Duration, done bool) {
	for _, base := range sources {
		err := c.from(ctx, digest, base, p)
		if err == nil {
			return nil, 0, true
		}
		faults = append(faults, fmt.Errorf("%s: %w", base, err))
		if b, ok := errors.AsType[busy](err); ok && (after == 0 || b.after < after) {
			after = b.after
		}
		if errors.Is(err, unix.ENOSPC) || ctx.Err() != nil {
			break
		}
	}
	return faults, after, false
}

// from goes on with the archive from one source, and checks the whole.
func (c *Cache) from(ctx context.Context, digest bundle.Digest, base string, p *partial) error {
	body, total, err := open(ctx, base, digest, p)
	if err != nil {
		return err
	}
	defer body.Close()
	if room := c.free(); total-p.size > room {
		c.collect(digest, 0)
		if room = c.free(); total-p.size > room {
			return fmt.Errorf("%d MB are needed for the archive alone: %w", (total-p.size)>>20, unix.ENOSPC)
		}
	}
	if err := c.copy(digest, base, p, body, total); err != nil {
		return err
	}
	if p.size < total {
		return fmt.Errorf("it was cut after %d of %d bytes: %w", p.size, total, errdefs.ErrUnavailable)
	}
	if got := bundle.Sum(p.hash); got != digest {
		// Nobody knows which bytes are wrong.
		return errors.Join(fmt.Errorf("what came has SHA-256 %s, not %s: %w", got, digest, errdefs.ErrInvalid), p.restart())
	}
	return p.file.Sync()
}

// copy appends what comes, hashes it, and tells how far it is.
func (c *Cache) copy(digest bundle.Digest, base string, p *partial, body io.Reader, total int64) error {
	buffer := make([]byte, 256<<10)
	told := time.Now()
	c.say("fetch bundle %s from %s: %d of %d MB are there", digest.Short(), base, p.size>>20, total>>20)
	for {
		n, err := body.Read(buffer)
		if p.size+int64(n) > total {
			return errors.Join(fmt.Errorf("it has more than the %d bytes that it told: %w", total, errdefs.ErrInvalid), p.restart())
		}
		if err := p.append(buffer[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cut after %d of %d bytes: %w: %w", p.size, total, errdefs.ErrUnavailable, err)
		}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			c.say("fetch bundle %s: %d of %d MB (%d %%)", digest.Short(), p.size>>20, total>>20, p.size*100/max(total, 1))
		}
	}
}

func openPartial(path string) (*partial, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	p := &partial{file: file, hash: sha256.New()}
	if p.size, err = io.Copy(p.hash, file); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), file.Close())
	}
	return p, nil
}

func (p *partial) append(data []byte) error {
	n, err := p.file.Write(data)
	p.hash.Write(data[:n]) // a hash takes everything
	p.size += int64(n)
	return err
}

// restart forgets all that has come.
func (p *partial) restart() error {
	p.hash.Reset()
	p.size = 0
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// oneLine keeps the log a list of lines.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
