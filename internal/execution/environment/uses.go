package environment

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
	"drydock/internal/store"
)

// SandboxUses names what the sandboxes that are not gone stand on.
func SandboxUses(ctx context.Context, db *store.DB) ([]snapshot.Use, error) {
	live, err := db.LiveSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	var out []snapshot.Use
	for _, row := range live {
		doc, err := parseStored(row.Handle)
		if err != nil {
			return nil, core.E("environment.uses", core.Internal, err, "handle of sandbox %s", row.ID)
		}
		use := snapshot.Use{By: "sandbox " + string(row.ID), Layers: doc.Layers, Snapshot: doc.Parent}
		for _, l := range doc.Base {
			use.Layers = append(use.Layers, l.Path)
		}
		out = append(out, use)
	}
	return out, nil
}
