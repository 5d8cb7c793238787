package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/cli/render"
)

func (a *app) newEvidenceVerify() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check a saved bundle, offline",
		Long: `Check a saved bundle without a daemon: the signature, every digest, and that
nothing is missing or added. It ends with 1 when something does not fit, and
names it. It does not run anything: see evidence rerun.

Who signed is checked against the public key given with --key, by default that
of the daemon on this machine: keys/evidence.pub in its state directory.`,
		Example: `  drydock evidence verify proof.tar
  drydock evidence verify proof.tar --key evidence.pub
  drydock evidence verify proof.tar --json | jq .faults`,
		Args: exactly("FILE"),
		RunE: a.run(func(ctx context.Context, args []string) error {
			return a.verify(ctx, VerifyOptions{File: args[0], Key: first(key, a.env.Getenv("DRYDOCK_EVIDENCE_KEY")), State: a.stateDir()})
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "file of public keys to trust (default DRYDOCK_EVIDENCE_KEY, else the daemon's own)")
	return cmd
}

func (a *app) verify(ctx context.Context, o VerifyOptions) error {
	if a.env.Verify == nil {
		return a.without("a verifier of evidence")
	}
	v, err := a.env.Verify(ctx, o)
	if err != nil {
		return err
	}
	if v.Faults == nil {
		v.Faults = []string{}
	}
	switch {
	case a.json:
		err = a.document(v)
	case v.Good:
		st := a.style(a.env.Stdout)
		if err = a.printf("%s the bundle is whole and signed\n", st.Good()); err == nil {
			err = a.pairs([2]string{"evidence", v.Evidence}, [2]string{"verdict", render.Words(v.Verdict)}, [2]string{"signer", v.Signer})
		}
	default:
		st := a.style(a.env.Stdout)
		err = a.printf("%s %s\n", st.Bad(), st.Red("the bundle does not hold"))
		for i, f := range v.Faults {
			if i == 8 && len(v.Faults) > 10 {
				err = errors.Join(err, a.printf("  and %d more (--json lists all)\n", len(v.Faults)-i))
				break
			}
			err = errors.Join(err, a.printf("  %s\n", render.Line(f)))
		}
	}
	if err == nil && !v.Good {
		err = exit{core.ExitFailed}
	}
	return err
}
