package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

func (a *app) newEvidence() *cobra.Command {
	cmd := group("evidence", "Evidence: what a verdict rests on, checked and run again",
		`  drydock evidence show shop#1
  drydock evidence save shop#1 proof.tar
  drydock evidence verify proof.tar          # offline, without a daemon
  drydock evidence rerun shop#1`,
		a.newEvidenceShow(), a.newEvidenceSave(), a.newEvidenceVerify(), a.newEvidenceRerun())
	cmd.Long = `Evidence: what a verdict rests on, checked and run again.

Where a command wants EVIDENCE, it takes an identifier (evd_...) or a change.`
	return cmd
}

// evidenceRef takes an identifier of evidence, or a change that has some.
func evidenceRef(ctx context.Context, c *client.Client, ref string) (core.EvidenceID, error) {
	if strings.HasPrefix(ref, "evd_") {
		return core.ParseID[core.EvidenceID]("evd_", ref)
	}
	d, err := c.Change(ctx, ref)
	if err != nil {
		return "", err
	}
	if d.Change.Evidence == "" {
		return "", core.E("cli.evidence", core.NotFound, nil, "change %s has no evidence", ref)
	}
	return d.Change.Evidence, nil
}
