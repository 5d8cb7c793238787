package cli

import "github.com/spf13/cobra"

func (a *app) newEnv() *cobra.Command {
	return group("env", "Environments: how a repository becomes a working machine",
		`  drydock env build /srv/git/shop
  drydock env list
  drydock env show shop`,
		a.newEnvBuild(), a.newEnvList(), a.newEnvShow(), a.newEnvRollback(), a.newEnvRm())
}
