package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	stdhash "hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// chunkSize is how much of a blob is sent at once: what is lost when a
// connection breaks.
const chunkSize = 32 << 20

// Has says whether a blob is there.
func (r *Remote) Has(ctx context.Context, digest string) (bool, error) {
	resp, err := r.ask(ctx, http.MethodHead, r.url("blobs", digest), nil, nil, http.StatusOK)
	if status(err) == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, r.fault(err, "blob "+digest)
	}
	return true, resp.Body.Close()
}

// Mount takes a blob over from another repository of the same registry, where
// the registry does that.
func (r *Remote) Mount(ctx context.Context, digest, from string) bool {
	to := r.url("blobs", "uploads/") + "?" + url.Values{"mount": {digest}, "from": {from}}.Encode()
	resp, err := r.once(ctx, http.MethodPost, to, nil, nil, http.StatusCreated, http.StatusAccepted)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		return true
	}
	// An upload was begun instead; nobody will go on with it.
	if at, err := location(resp); err == nil {
		if resp, err := r.once(ctx, http.MethodDelete, at, nil, nil, http.StatusNoContent); err == nil {
			_ = resp.Body.Close()
		}
	}
	return false
}

func location(resp *http.Response) (string, error) {
	u, err := resp.Location()
	if err != nil {
		return "", fmt.Errorf("the registry does not say where to send a blob: %w", err)
	}
	return u.String(), nil
}

// upload is a blob on its way.
type upload struct {
	r      *Remote
	d      Descriptor
	from   io.ReaderAt
	report func(done int64)

	at    string // where the next piece goes; "" begins anew
	done  int64
	whole bool // in one piece: the registry does not take several
}

// Upload sends a blob, and goes on where it was when the connection breaks.
func (r *Remote) Upload(ctx context.Context, d Descriptor, from io.ReaderAt, report func(done int64)) error {
	u := &upload{r: r, d: d, from: from, report: report}
	for try := 0; ; {
		before := u.done
		err := u.send(ctx)
		if err == nil {
			return nil
		}
		code := status(err)
		refused := code >= 400 && code < 500 && code != http.StatusTooManyRequests
		switch {
		case ctx.Err() != nil:
			return r.fault(ctx.Err(), "blob "+d.Digest)
		case refused && u.at != "" && !u.whole && code != http.StatusUnauthorized && code != http.StatusForbidden:
			u.at, u.done, u.whole = "", 0, true
			continue
		case !passing(err):
			return r.fault(err, "blob "+d.Digest)
		case u.done > before:
			try = 0
		}
		if try++; try >= remoteTries || pause(ctx, try-1) != nil {
			return r.fault(err, "blob "+d.Digest)
		}
		u.find(ctx)
	}
}

// find asks how far a broken upload has come.
func (u *upload) find(ctx context.Context) {
	at := u.at
	u.at, u.done = "", 0
	if at == "" || u.whole {
		return
	}
	resp, err := u.r.once(ctx, http.MethodGet, at, nil, nil, http.StatusNoContent)
	if err != nil {
		return
	}
	_ = resp.Body.Close()
	if next, err := location(resp); err == nil {
		at = next
	}
	if done, ok := upTo(resp.Header.Get("Range")); ok && done <= u.d.Size {
		u.at, u.done = at, done
	}
}

// upTo reads "0-N", as registries say how much they have.
func upTo(text string) (int64, bool) {
	_, last, ok := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	n, err := strconv.ParseInt(last, 10, 64)
	if !ok || err != nil || n < 0 {
		return 0, false
	}
	if n == 0 {
		return 0, true // nothing yet; one byte alone is sent again
	}
	return n + 1, true
}

func (u *upload) send(ctx context.Context) error {
	if u.at == "" {
		resp, err := u.r.once(ctx, http.MethodPost, u.r.url("blobs", "uploads/"), nil, nil, http.StatusAccepted)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if u.at, err = location(resp); err != nil {
			return err
		}
	}
	if u.d.Size <= chunkSize && u.done == 0 {
		u.whole = true
	}
	for !u.whole && u.done < u.d.Size {
		if err := u.chunk(ctx, min(u.d.Size, u.done+chunkSize)); err != nil {
			return err
		}
	}
	to, err := url.Parse(u.at)
	if err != nil {
		return err
	}
	q := to.Query()
	q.Set("digest", u.d.Digest)
	to.RawQuery = q.Encode()
	resp, err := u.put(ctx, http.MethodPut, to.String(), u.d.Size, http.StatusCreated, http.StatusNoContent)
	if err != nil {
		return err
	}
	u.done = u.d.Size
	u.report(u.done)
	return resp.Body.Close()
}

func (u *upload) chunk(ctx context.Context, end int64) error {
	resp, err := u.put(ctx, http.MethodPatch, u.at, end, http.StatusAccepted, http.StatusNoContent, http.StatusCreated)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	next, err := location(resp)
	if err != nil {
		return err
	}
	if have, ok := upTo(resp.Header.Get("Range")); ok && have != end {
		return fmt.Errorf("the registry has %d bytes of a blob of which it was sent %d", have, end)
	}
	u.at, u.done = next, end
	u.report(end)
	return nil
}

// put sends the bytes up to end.
func (u *upload) put(ctx context.Context, method, to string, end int64, codes ...int) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := end - u.done
	body := &sending{r: io.NewSectionReader(u.from, u.done, n), at: u.done, left: n, report: u.report, timer: time.AfterFunc(stallAfter, cancel)}
	defer body.timer.Stop()
	req, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		req.Body = http.NoBody
		body.timer.Reset(answerAfter)
	}
	req.ContentLength = n
	req.Header.Set("Content-Type", "application/octet-stream")
	if method == http.MethodPatch {
		req.Header.Set("Content-Range", fmt.Sprintf("%d-%d", u.done, end-1))
	}
	resp, err := u.r.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the registry took nothing for %s", stallAfter)
		}
		return nil, err
	}
	if err := transport.CheckError(resp, codes...); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// sending reports as it is read, and ends a request that stands still.
type sending struct {
	r        io.Reader
	at, left int64
	report   func(int64)
	timer    *time.Timer
	said     int64
}

const reportEvery = 1 << 20

func (s *sending) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.at += int64(n)
	s.left -= int64(n)
	if s.at-s.said >= reportEvery {
		s.said = s.at
		s.report(s.at)
	}
	if s.left <= 0 {
		s.timer.Reset(answerAfter)
	} else {
		s.timer.Reset(stallAfter)
	}
	return n, err
}

// Blob reads a blob. It goes on where it was when the connection breaks, and
// ends without an error only if all of it was what the descriptor says.
func (r *Remote) Blob(ctx context.Context, d Descriptor) io.ReadCloser {
	return &download{r: r, ctx: ctx, d: d, sum: sha256.New()}
}

type download struct {
	r    *Remote
	ctx  context.Context //nolint:containedctx // of one stream, which ends with it
	d    Descriptor
	sum  stdhash.Hash
	done int64
	body io.ReadCloser

	tries int
	since int64 // bytes since the last break
	err   error
}

func (b *download) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if b.done == b.d.Size {
			b.err = io.EOF
			if "sha256:"+hex.EncodeToString(b.sum.Sum(nil)) != b.d.Digest {
				b.err = b.r.fault(errSwapped, "blob "+b.d.Digest)
			}
			return 0, b.err
		}
		n, err := b.some(p[:min(int64(len(p)), b.d.Size-b.done)])
		if n > 0 {
			_, _ = b.sum.Write(p[:n])
			b.done += int64(n)
			if b.since += int64(n); b.since >= reportEvery {
				b.tries = 0
			}
			return n, nil
		}
		if err == nil {
			continue
		}
		_ = b.close()
		if b.tries++; b.ctx.Err() != nil {
			err = b.ctx.Err()
		} else if passing(err) && b.tries < remoteTries && pause(b.ctx, b.tries-1) == nil {
			continue
		}
		b.err = b.r.fault(err, "blob "+b.d.Digest)
		return 0, b.err
	}
}

// some reads from the connection, which it opens where there is none.
func (b *download) some(p []byte) (int, error) {
	if b.body == nil {
		if err := b.open(); err != nil {
			return 0, err
		}
	}
	n, err := b.body.Read(p)
	if err == io.EOF && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *download) open() error {
	ctx, cancel := context.WithCancel(b.ctx)
	header := http.Header{}
	if b.done > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", b.done, b.d.Size-1))
	}
	resp, err := b.r.once(ctx, http.MethodGet, b.r.url("blobs", b.d.Digest), header, nil, http.StatusOK, http.StatusPartialContent)
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		resp, err = b.r.once(ctx, http.MethodGet, b.r.url("blobs", b.d.Digest), nil, nil, http.StatusOK)
	}
	if err != nil {
		cancel()
		return err
	}
	b.since = 0
	b.body = ending{withStall(resp.Body, cancel), cancel}
	want := b.d.Size
	if resp.StatusCode == http.StatusPartialContent {
		want -= b.done
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", b.done)) {
			return fmt.Errorf("the registry sends the range %q, not what was asked for", resp.Header.Get("Content-Range"))
		}
	}
	if resp.ContentLength >= 0 && resp.ContentLength != want {
		return sizeError{resp.ContentLength, want}
	}
	if resp.StatusCode == http.StatusOK && b.done > 0 { // it does not do ranges
		_, err = io.CopyN(io.Discard, b.body, b.done)
	}
	return err
}

// sizeError may be a proxy's page instead of the blob: it is asked for again.
type sizeError struct{ is, want int64 }

func (e sizeError) Error() string { return fmt.Sprintf("it has %d bytes there, not %d", e.is, e.want) }

// ending ends the request with the body.
type ending struct {
	*stalling
	cancel context.CancelFunc
}

func (e ending) Close() error {
	defer e.cancel()
	return e.stalling.Close()
}

func (b *download) close() error {
	if b.body == nil {
		return nil
	}
	body := b.body
	b.body = nil
	return body.Close()
}

// Close implements io.Closer.
func (b *download) Close() error {
	if b.err == nil {
		b.err = io.ErrClosedPipe
	}
	return b.close()
}
