package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"

	"drydock/internal/control/event"
	"drydock/internal/control/overview"
	"drydock/internal/control/proving"
	"drydock/internal/core"
	"drydock/internal/delivery/forge/local"
	"drydock/internal/store/blob"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

func digestOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// handler is the interface with everything behind it.
func (d *Daemon) handler() (*server.Server, error) {
	who := people{d.access}
	git, err := d.forge.Handler(func(ctx context.Context, _, secret string) (core.Author, error) {
		return d.access.Authenticate(ctx, secret)
	}, local.HTTPOptions{})
	if err != nil {
		return nil, err
	}
	git = d.watchPushes(git)
	s := sessions{d.sessions}
	c := changes{d.changes, d.selections, d.pushed, d.log}
	return server.New(server.Deps{
		Log: d.log, Tokens: who, Visitors: who, Sessions: s, Overview: overview.New(d.db, d.sessions), Prompts: s, Steering: s, Forks: forks{d.sessions, d.workspaces}, Drafts: drafts{d.pool, d.builder},
		Workspaces: look{d.workspaces}, Terminals: look{d.workspaces}, Events: logs{d.events},
		Environments: environments{d.builder}, Snapshots: snapshots{d.snapshots, d.db, d.collector, d.registry, d.builder, &d.ensured},
		Sandboxes: sandboxes{d.db, d.driver}, Capacity: room{d}, Changes: c, Review: c, Selections: selections{d.selections}, Evidence: proofs{d.prover}, Approvals: approvals{d.db, d.events, d.prover, d.changes}, Blobs: blobs{d.blobs}, Usage: usage{d.db},
		Git: func(core.Author) http.Handler { return git }, Metrics: d.metrics.Handler(), Backup: backup{d}, Previews: previews{d.previews},
		Reading: d.review, Discussion: d.review,
	}, server.Options{Version: d.opts.Version, PublicURL: d.opts.PublicURL, PlainHTTP: d.opts.PlainHTTP})
}

// logs gives the interface the logs of events.
type logs struct{ *event.Log }

// Watch implements server.Events.
func (l logs) Watch() server.Watch { return l.Log.Watch() }

// blobs opens pictures and logs by digest.
type blobs struct{ s *blob.Store }

// Open implements server.Blobs.
func (b blobs) Open(_ context.Context, digest string) (io.ReadCloser, int64, error) {
	f, err := b.s.Open(digest)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, core.E("api.blob", core.Unavailable, err, "blob %s", digest)
	}
	return f, info.Size(), nil
}

// proofs gives the interface evidence.
type proofs struct{ *proving.Prover }

var _ server.Evidence = proofs{}

// Rerun implements server.Evidence.
func (p proofs) Rerun(ctx context.Context, id core.EvidenceID, _ core.Author, progress func(core.Event)) (api.Rerun, error) {
	got, err := p.Prover.Rerun(ctx, id, progress)
	if err != nil {
		return api.Rerun{}, err
	}
	out := api.Rerun{Result: got.Answer, Reason: got.Reason}
	for _, where := range got.Differences {
		out.Differences = append(out.Differences, api.Difference{Where: where, Was: string(got.Before), Is: string(got.After)})
	}
	return out, nil
}
