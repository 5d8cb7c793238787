package registry

import (
	"context"
	"io"
	"sync/atomic"

	"drydock/internal/execution/image"
)

type counter struct{ n atomic.Int64 }

func (c *counter) load() int64 { return c.n.Load() }

// open begins a download when there is a slot for it, and gives the slot back
// at its end.
func (p *pulling) open(ctx context.Context, what string, d image.Descriptor, slots chan struct{}) io.ReadCloser {
	return &fetching{p: p, ctx: ctx, what: what, d: d, slots: slots}
}

type fetching struct {
	p     *pulling
	ctx   context.Context //nolint:containedctx // of one stream
	what  string
	d     image.Descriptor
	slots chan struct{}

	body io.ReadCloser
	done int64
	said int64
}

func (f *fetching) Read(b []byte) (int, error) {
	if f.body == nil {
		select {
		case f.slots <- struct{}{}:
		case <-f.ctx.Done():
			return 0, f.ctx.Err()
		}
		f.body = f.p.from.Blob(f.ctx, f.d)
		f.say(StateFetching)
	}
	n, err := f.body.Read(b)
	f.done += int64(n)
	f.p.fetched.n.Add(int64(n))
	if f.done-f.said >= reportEvery {
		f.said = f.done
		f.say(StateFetching)
	}
	if err == io.EOF {
		f.say(StateDone)
	}
	return n, err
}

func (f *fetching) say(state string) {
	f.p.say.report(Progress{f.what, state, f.d.Digest, f.done, f.d.Size})
}

func (f *fetching) Close() error {
	if f.body == nil {
		return nil
	}
	body := f.body
	f.body = nil
	<-f.slots
	return body.Close()
}
