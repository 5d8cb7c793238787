package api

import "drydock/internal/core"

// CreateSelection gives one task to several sessions that start alike.
type CreateSelection struct {
	Environment string      `json:"environment" minLength:"1" maxLength:"200" doc:"name or identifier"`
	Prompt      string      `json:"prompt" minLength:"1" maxLength:"262144" doc:"the task, in words; the same for all"`
	ClientID    string      `json:"client_id,omitempty" maxLength:"100" doc:"the client's own id: a retry with it is not a second selection"`
	Sessions    int         `json:"sessions" minimum:"2" maximum:"10" doc:"how many; their seeds count from 1"`
	Models      []string    `json:"models,omitempty" maxItems:"10" doc:"given to the sessions in turn; default that of the configuration"`
	Rule        string      `json:"rule,omitempty" enum:"person,first-proven,smallest,cheapest,fastest" doc:"who picks; default person"`
	Title       string      `json:"title,omitempty" maxLength:"300"`
	Blueprint   string      `json:"blueprint,omitempty" maxLength:"100"`
	Agent       string      `json:"agent,omitempty" maxLength:"100"`
	Base        string      `json:"base,omitempty" maxLength:"250" doc:"branch the work is for; its commit is fixed for all"`
	Budget      core.Budget `json:"budget,omitzero" doc:"money of the whole, divided evenly; wall clock of each session"`
}

// Pick says which session of a selection is picked.
type Pick struct {
	Session string `json:"session" minLength:"1" maxLength:"100"`
}

// SelectionDetail is a selection with its sessions compared, best first.
type SelectionDetail struct {
	Selection  core.Selection   `json:"selection"`
	Candidates []core.Candidate `json:"candidates" nullable:"false"`
}
