package daemon

import (
	"bytes"
	"context"
	"image/png"
	"net/url"

	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/harness/tool"
	"drydock/internal/proof/browser"
	"drydock/internal/proof/exam"
	"drydock/internal/store/blob"
)

// photographer pictures pages in proofs, unless the configuration says no.
func (d *Daemon) photographer() exam.Photographer {
	if d.opts.NoPictures {
		return nil
	}
	return browser.Photographer{}
}

// camera is the browser of a session's sandbox, for its agent.
type camera struct {
	box   *box
	blobs *blob.Store
}

var _ tool.Pictures = camera{}

// maxPicture bounds one PNG that is kept.
const maxPicture = 32 << 20

// Picture implements tool.Pictures.
func (c camera) Picture(ctx context.Context, req tool.PictureRequest) (tool.Picture, error) {
	if u, err := url.Parse(req.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return tool.Picture{}, core.E("daemon.picture", core.Invalid, err, "%q is not an http address", req.URL)
	}
	var shot browser.Shot
	if err := c.box.do(ctx, func(m *environment.Machine, _ *guest.Client) (err error) {
		shot, err = browser.Picture(ctx, workspace.Browser{Machine: m}, browser.Request{
			URL: req.URL, Width: req.Width, Height: req.Height, Full: req.FullPage,
		})
		return err
	}); err != nil {
		return tool.Picture{}, err
	}
	size, err := png.DecodeConfig(bytes.NewReader(shot.PNG))
	if err != nil {
		return tool.Picture{}, core.E("daemon.picture", core.Internal, err, "picture of %s", req.URL)
	}
	digest, _, err := c.blobs.Put(ctx, bytes.NewReader(shot.PNG), maxPicture)
	if err != nil {
		return tool.Picture{}, err
	}
	return tool.Picture{
		PNG: shot.PNG, Width: size.Width, Height: size.Height, Title: shot.Title, Status: shot.Status,
		Console: shot.ConsoleErrors, Failed: shot.FailedRequests, Digest: digest,
	}, nil
}

// redact takes known secrets out of what is kept.
func (d *Daemon) redact() func([]byte) []byte {
	if d.opts.Redact == nil {
		return nil
	}
	return func(text []byte) []byte { return []byte(d.opts.Redact(string(text))) }
}
