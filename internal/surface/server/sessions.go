package server

import (
	"context"
	"net/http"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func sessionID(s string) (core.SessionID, error) {
	return core.ParseID[core.SessionID]("ses_", s)
}

func withSession[O any](raw string, f func(core.SessionID) (*O, error)) (*O, error) {
	return withID("ses_", raw, f)
}

func (s *Server) sessionRoutes() {
	const tag = "sessions"
	d := s.deps
	have := d.Sessions != nil
	register(s, route{id: "list-sessions", method: "GET", path: "/sessions", tag: tag, have: have, summary: "List sessions, newest first"},
		func(ctx context.Context, _ core.Author, in *struct {
			PageIn
			Environment string `query:"environment" maxLength:"200" doc:"name or identifier"`
			State       string `query:"state" enum:"queued,starting,running,waiting,stopping,idle,failed,archived"`
			Owner       string `query:"owner" maxLength:"100"`
			Text        string `query:"text" maxLength:"200" doc:"in the title"`
			Archived    bool   `query:"archived" doc:"also archived ones"`
		},
		) (*out[api.List[core.Session]], error) {
			env, err := s.environmentID(ctx, in.Environment)
			if err != nil {
				return nil, err
			}
			items, next, err := d.Sessions.List(ctx, core.SessionFilter{
				Environment: env, State: core.SessionState(in.State), Owner: in.Owner, Text: in.Text,
				Archived: in.Archived || in.State == string(core.SessionArchived),
			}, in.page())
			return listOf(items, next), err
		})
	register(s, route{id: "get-session", method: "GET", path: "/sessions/{id}", tag: tag, have: have, summary: "One session"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[core.Session], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.Session], error) {
				v, err := d.Sessions.Get(ctx, id)
				return ok(v), err
			})
		})
	register(s, route{id: "list-runs", method: "GET", path: "/sessions/{id}/runs", tag: tag, have: have, summary: "Runs of a session"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.List[core.Run]], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.List[core.Run]], error) {
				v, err := d.Sessions.Runs(ctx, id)
				return listOf(v, ""), err
			})
		})
	register(s, route{id: "list-attempts", method: "GET", path: "/runs/{id}/attempts", tag: tag, have: have, summary: "Attempts of a run, in order"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.List[core.Attempt]], error) {
			id, err := core.ParseID[core.RunID]("run_", in.ID)
			if err != nil {
				return nil, err
			}
			v, err := d.Sessions.Attempts(ctx, id)
			return listOf(v, ""), err
		})
	s.steeringRoutes()
	s.workspaceRoutes()
}

func (s *Server) steeringRoutes() {
	const tag = "sessions"
	d := s.deps
	have := d.Steering != nil
	register(s, route{id: "stop-session", method: "POST", path: "/sessions/{id}/stop", tag: tag, status: 204, have: have, summary: "Stop the run under way; the work so far is kept"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.Reason
		},
		) (*none, error) {
			return withSession(in.ID, func(id core.SessionID) (*none, error) {
				return nil, d.Steering.Stop(ctx, id, by, in.Body.Reason)
			})
		})
	register(s, route{id: "continue-session", method: "POST", path: "/sessions/{id}/continue", tag: tag, have: have, summary: "Go on after a stop, a failure or a hand-over"},
		func(ctx context.Context, by core.Author, in *IDIn) (*out[core.Prompt], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.Prompt], error) {
				v, err := d.Steering.Continue(ctx, id, by)
				return ok(v), err
			})
		})
	register(s, route{id: "fork-session", method: "POST", path: "/sessions/{id}/fork", tag: tag, status: http.StatusCreated, have: d.Forks != nil, summary: "New sessions that go on from where this one is, memory included"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.ForkSession
		},
		) (*out[api.Forked], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.Forked], error) {
				v, err := d.Forks.Fork(ctx, id, by, in.Body)
				return ok(v), err
			})
		})
	register(s, route{id: "archive-session", method: "DELETE", path: "/sessions/{id}", tag: tag, status: 204, have: have, summary: "Archive a session: its sandbox goes, its log stays"},
		func(ctx context.Context, by core.Author, in *IDIn) (*none, error) {
			return withSession(in.ID, func(id core.SessionID) (*none, error) {
				return nil, d.Steering.Archive(ctx, id, by)
			})
		})
	register(s, route{id: "set-budget", method: "PUT", path: "/sessions/{id}/budget", tag: tag, have: have, summary: "Raise the budget of a session"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body core.Budget
		},
		) (*out[core.Session], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.Session], error) {
				v, err := d.Steering.RaiseBudget(ctx, id, by, in.Body)
				return ok(v), err
			})
		})
}

func (s *Server) workspaceRoutes() {
	const tag = "sessions"
	d := s.deps
	have := d.Workspaces != nil
	register(s, route{id: "session-diff", method: "GET", path: "/sessions/{id}/diff", tag: tag, have: have, summary: "What the session changed so far, against its base"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.Diff], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.Diff], error) {
				v, err := d.Workspaces.Diff(ctx, id)
				return ok(s.cutDiff(api.Diff{Diff: v})), err
			})
		})
	type pathIn struct {
		IDIn
		Path string `query:"path" required:"true" minLength:"1" maxLength:"4096"`
	}
	register(s, route{id: "session-files", method: "GET", path: "/sessions/{id}/files", tag: tag, have: have, summary: "List a directory of the workspace"},
		func(ctx context.Context, _ core.Author, in *pathIn) (*out[api.List[api.FileInfo]], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.List[api.FileInfo]], error) {
				v, err := d.Workspaces.ListFiles(ctx, id, in.Path)
				return listOf(v, ""), err
			})
		})
	register(s, route{id: "session-file", method: "GET", path: "/sessions/{id}/file", tag: tag, have: have, content: bytesContent, summary: "Bytes of one file of the workspace, at most 8 MiB"},
		func(ctx context.Context, _ core.Author, in *pathIn) (*bytesOut, error) {
			return withSession(in.ID, func(id core.SessionID) (*bytesOut, error) {
				v, err := d.Workspaces.ReadFile(ctx, id, in.Path, 8<<20)
				return &bytesOut{ContentType: octets, Disposition: "attachment", Body: v}, err
			})
		})
}

func (s *Server) promptRoutes() {
	const tag = "sessions"
	d := s.deps
	have := d.Prompts != nil
	register(s, route{id: "create-session", method: "POST", path: "/sessions", tag: tag, status: http.StatusCreated, have: have, summary: "New session with its first prompt; stored when answered"},
		func(ctx context.Context, by core.Author, in *struct{ Body api.CreateSession }) (*out[api.CreatedSession], error) {
			b := in.Body
			var draft core.DraftID
			if b.Draft != "" {
				var err error
				if draft, err = core.ParseID[core.DraftID]("drf_", b.Draft); err != nil {
					return nil, err
				}
			}
			ses, prompt, err := d.Prompts.Create(ctx, core.NewSession{
				Environment: b.Environment, Title: b.Title, Blueprint: b.Blueprint, Agent: b.Agent,
				Model: b.Model, Base: b.Base, Budget: b.Budget, Draft: draft,
				Prompt: core.NewPrompt{Author: by, Text: b.Prompt, ClientID: b.ClientID, Source: "api"},
			})
			return ok(api.CreatedSession{Session: ses, Prompt: prompt}), err
		})
	register(s, route{id: "list-prompts", method: "GET", path: "/sessions/{id}/prompts", tag: tag, have: d.Sessions != nil, summary: "Prompts of a session, in order"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.List[core.Prompt]], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.List[core.Prompt]], error) {
				v, err := d.Sessions.Prompts(ctx, id)
				return listOf(v, ""), err
			})
		})
	register(s, route{id: "create-prompt", method: "POST", path: "/sessions/{id}/prompts", tag: tag, status: http.StatusCreated, have: have, summary: "Queue a follow-up; stored when answered"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.CreatePrompt
		},
		) (*out[core.Prompt], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.Prompt], error) {
				v, err := d.Prompts.Prompt(ctx, id, core.NewPrompt{Author: by, Text: in.Body.Text, ClientID: in.Body.ClientID, Source: "api"})
				return ok(v), err
			})
		})
	s.queueRoutes()
	s.draftRoutes()
}

func (s *Server) draftRoutes() {
	const tag = "sessions"
	d := s.deps
	have := d.Drafts != nil
	register(s, route{id: "create-draft", method: "POST", path: "/drafts", tag: tag, status: http.StatusCreated, have: have, summary: "Somebody has begun to type: a warm sandbox is kept for the prompt"},
		func(ctx context.Context, by core.Author, in *struct{ Body api.CreateDraft }) (*out[api.Draft], error) {
			v, err := d.Drafts.Draft(ctx, in.Body.Environment, by)
			return ok(v), err
		})
	register(s, route{id: "return-draft", method: "DELETE", path: "/drafts/{id}", tag: tag, status: 204, have: have, summary: "There will be no prompt: the sandbox goes back"},
		func(ctx context.Context, by core.Author, in *IDIn) (*none, error) {
			id, err := core.ParseID[core.DraftID]("drf_", in.ID)
			if err != nil {
				return nil, err
			}
			return nil, d.Drafts.ReturnDraft(ctx, id, by)
		})
}

type PromptIn struct {
	IDIn
	Prompt string `path:"prompt" maxLength:"100"`
}

func withPrompt[O any](in PromptIn, f func(core.SessionID, core.PromptID) (*O, error)) (*O, error) {
	return withSession(in.ID, func(id core.SessionID) (*O, error) {
		prompt, err := core.ParseID[core.PromptID]("prm_", in.Prompt)
		if err != nil {
			return nil, err
		}
		return f(id, prompt)
	})
}

func (s *Server) queueRoutes() {
	const tag = "sessions"
	d := s.deps
	have := d.Prompts != nil
	register(s, route{id: "edit-prompt", method: "PATCH", path: "/sessions/{id}/prompts/{prompt}", tag: tag, have: have, summary: "Change the text of a queued prompt"},
		func(ctx context.Context, by core.Author, in *struct {
			PromptIn
			Body api.EditPrompt
		},
		) (*out[core.Prompt], error) {
			return withPrompt(in.PromptIn, func(id core.SessionID, prompt core.PromptID) (*out[core.Prompt], error) {
				v, err := d.Prompts.EditPrompt(ctx, id, prompt, in.Body.Text, by)
				return ok(v), err
			})
		})
	register(s, route{id: "remove-prompt", method: "DELETE", path: "/sessions/{id}/prompts/{prompt}", tag: tag, status: 204, have: have, summary: "Withdraw a queued prompt"},
		func(ctx context.Context, by core.Author, in *PromptIn) (*none, error) {
			return withPrompt(*in, func(id core.SessionID, prompt core.PromptID) (*none, error) {
				return nil, d.Prompts.RemovePrompt(ctx, id, prompt, by)
			})
		})
	register(s, route{id: "prompt-now", method: "POST", path: "/sessions/{id}/prompts/{prompt}/now", tag: tag, have: have, summary: "Stop what runs, and then run this queued prompt"},
		func(ctx context.Context, by core.Author, in *PromptIn) (*out[core.Session], error) {
			return withPrompt(*in, func(id core.SessionID, prompt core.PromptID) (*out[core.Session], error) {
				v, err := d.Prompts.PromptNow(ctx, id, prompt, by)
				return ok(v), err
			})
		})
	register(s, route{id: "move-prompt", method: "POST", path: "/sessions/{id}/prompts/{prompt}/move", tag: tag, status: 204, have: have, summary: "Move a queued prompt within the queue"},
		func(ctx context.Context, by core.Author, in *struct {
			PromptIn
			Body api.MovePrompt
		},
		) (*none, error) {
			return withPrompt(in.PromptIn, func(id core.SessionID, prompt core.PromptID) (*none, error) {
				return nil, d.Prompts.MovePrompt(ctx, id, prompt, in.Body.Position, by)
			})
		})
}

// environmentID resolves a name; an empty one stays empty.
func (s *Server) environmentID(ctx context.Context, nameOrID string) (core.EnvironmentID, error) {
	if nameOrID == "" {
		return "", nil
	}
	if s.deps.Environments == nil {
		return core.ParseID[core.EnvironmentID]("env_", nameOrID)
	}
	env, err := s.deps.Environments.Get(ctx, nameOrID)
	return env.ID, err
}

// cutDiff bounds a diff, at the end of a line.
func (s *Server) cutDiff(d api.Diff) api.Diff {
	if len(d.Diff) <= s.opts.MaxDiff {
		return d
	}
	cut := s.opts.MaxDiff
	for cut > 0 && d.Diff[cut-1] != '\n' {
		cut--
	}
	d.Diff, d.Cut = d.Diff[:cut], true
	return d
}
