package codechange

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/gitcmd/mirror"
)

const (
	maxDiff  = 16 << 20
	maxAdded = 400_000
)

// scope judges what would be committed, before it is.
func (d Deps) scope(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	w, err := d.Workspaces.Open(ctx, v.Job)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	m, wip, files, err := d.edited(ctx, v, w)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	if len(files) == 0 {
		v.Data.Set(blueprint.KeyFailure, core.Failure{
			Code: "nothing_to_prove", Message: "the working tree is as it was: nothing was changed",
			Hint: "say more precisely what should change, and prompt again",
		})
		return result("nothing", "no file differs from the base")
	}
	patch, err := m.Diff(ctx, text(v, keyBase), wip, mirror.DiffOptions{Limit: maxDiff})
	if err != nil {
		return blueprint.Outcome{}, err
	}
	findings := d.Gate.Inspect(files, addedLines(string(patch.Text), maxAdded))
	if len(findings) == 0 {
		return result("ok", "%d files", len(files))
	}
	for i, f := range findings {
		if i == 20 {
			break
		}
		if err := d.emit(ctx, v, core.EventWarning, core.WarningData{Code: "scope_" + f.Code, Message: f.String()}); err != nil {
			return blueprint.Outcome{}, err
		}
	}
	v.Data.Set(keyBrief, mendBrief(findings))
	texts := make([]string, 0, len(findings))
	for _, f := range findings {
		texts = append(texts, f.String())
	}
	v.Data.Set(blueprint.KeyFailure, core.Failure{
		Code: "scope", Message: "the scope gate refused the change: " + strings.Join(texts[:min(len(texts), 5)], "; "),
		Hint: "look at the branch; what is meant to be there, a person can commit",
	})
	if slices.ContainsFunc(findings, func(f Finding) bool { return f.Stop }) {
		return result("blocked", "a person must look: %s", texts[0])
	}
	return result("refused", "%s", strings.Join(texts[:min(len(texts), 3)], "; "))
}

// commit makes the one commit of this prompt on the host, and pushes it.
func (d Deps) commit(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	s, err := d.Sessions.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	m, err := d.Workspaces.Mirror(ctx, s.Environment)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	tree, err := m.Tree(ctx, text(v, keyWip))
	if err != nil {
		return blueprint.Outcome{}, err
	}
	parent := s.Head
	if parent == "" {
		parent = s.BaseCommit
	}
	if same, err := m.Tree(ctx, parent); err != nil {
		return blueprint.Outcome{}, err
	} else if same == tree {
		if head := text(v, keyHead); head != "" {
			return result("ok", "%.12s, as before", head) // the push or the proof was interrupted
		}
		if s.Head != "" && d.committedByRun(ctx, m, s.Head, v.Job.Run.ID) {
			v.Data.Set(keyHead, s.Head)
			return d.publish(ctx, v, s, m, s.Head, "")
		}
		v.Data.Set(blueprint.KeyFailure, core.Failure{
			Code: "nothing_to_prove", Message: "the branch already holds exactly this: nothing was changed by this prompt",
			Hint: "say more precisely what should change, and prompt again",
		})
		return result("nothing", "nothing new to commit")
	}
	author := v.Job.Prompt.Author
	when := v.Job.Run.Created.UTC().Truncate(time.Second)
	head, err := m.CommitTree(ctx, mirror.CommitSpec{
		Tree: tree, Parents: []string{parent},
		Author:    mirror.Signature{Name: author.Name, Email: author.Email, When: when},
		Committer: mirror.Signature{Name: "Drydock", Email: "drydock@localhost", When: when},
		Message:   commitMessage(v.Job, text(v, keySummary)),
	})
	if err != nil {
		return blueprint.Outcome{}, err
	}
	v.Data.Set(keyHead, head)
	return d.publish(ctx, v, s, m, head, s.Head)
}

// committedByRun tells a commit of this run from one of an earlier prompt.
func (d Deps) committedByRun(ctx context.Context, m *mirror.Mirror, head string, run core.RunID) bool {
	log, err := m.Log(ctx, mirror.LogOptions{From: head, Max: 1})
	return err == nil && len(log) == 1 && strings.Contains(log[0].Message, "Drydock-Run: "+string(run))
}

// publish moves the branch in the mirror, then on the forge, then the session.
// Each is harmless to repeat.
func (d Deps) publish(ctx context.Context, v *blueprint.Visit, s core.Session, m *mirror.Mirror, head, before string) (blueprint.Outcome, error) {
	ref := "refs/drydock/branches/" + s.Branch
	if at, err := m.ReadRef(ctx, ref); err != nil {
		return blueprint.Outcome{}, err
	} else if at != head {
		if err := m.UpdateRef(ctx, ref, head, at); err != nil {
			return blueprint.Outcome{}, err
		}
	}
	if before != "" {
		// A fork has another session's commits below it and a branch that nobody
		// has seen yet.
		at, _, err := d.Deliverer.Remote(ctx, v.Job, s.Branch)
		if err != nil {
			return blueprint.Outcome{}, err
		}
		if at == "" {
			before = ""
		}
	}
	if err := d.Deliverer.Publish(ctx, v.Job, s.Branch, head, before); err != nil {
		return blueprint.Outcome{}, err
	}
	files, err := m.ChangedFiles(ctx, s.BaseCommit, head)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	data := core.CommitData{Commit: head, Branch: s.Branch, Subject: subject(v.Job), Author: v.Job.Prompt.Author, Files: len(files)}
	for _, f := range files {
		data.Added += f.Added
		data.Removed += f.Removed
	}
	if s.Head != head {
		if err := d.Sessions.Fix(ctx, v.Job, Place{Head: head}); err != nil {
			return blueprint.Outcome{}, err
		}
		if err := d.emit(ctx, v, core.EventCommit, data); err != nil {
			return blueprint.Outcome{}, err
		}
	}
	return result("ok", "%.12s: %d files, +%d -%d", head, data.Files, data.Added, data.Removed)
}

var listed = regexp.MustCompile(`^([-*+]|\d+[.)]) `)

// subject is the first line of the commit and the title of the change: the
// person's words, since the agent's may claim too much. A line that only leads
// to the next one, such as where a comment was made, says nothing by itself.
func subject(job blueprint.Job) string {
	line := ""
	for l := range strings.Lines(job.Prompt.Text) {
		l = strings.Join(strings.Fields(l), " ")
		if leads := strings.HasSuffix(line, ":") && !listed.MatchString(l); l != "" && (line == "" || leads) {
			line = l
		} else if l != "" {
			break
		}
	}
	runes := []rune(line)
	if len(runes) > 72 {
		cut := string(runes[:69])
		if i := strings.LastIndexByte(cut, ' '); i > 30 {
			cut = cut[:i]
		}
		line = cut + "..."
	}
	if line == "" {
		line = "Change by prompt " + string(job.Prompt.ID)
	}
	return line
}

func commitMessage(job blueprint.Job, summary string) string {
	var b strings.Builder
	b.WriteString(subject(job) + "\n\n")
	if summary = strings.TrimSpace(clean(summary)); summary != "" {
		b.WriteString(head(summary, 2000) + "\n\n")
	}
	// Trailers come last, so that nothing in a summary can pose as one.
	fmt.Fprintf(&b, "Drydock-Session: %s\nDrydock-Run: %s\n", job.Session.ID, job.Run.ID)
	return b.String()
}

// clean drops what a commit message or a terminal must not carry, and lines
// that would read as our trailers.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, ""))
	lines := strings.Split(s, "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(l)), "drydock-")
	})
	return strings.Join(lines, "\n")
}

func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " [...]"
}

// prove asks the exam, in sandboxes where the agent has never been.
func (d Deps) prove(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	proof, err := d.Prover.Prove(ctx, ProofRequest{
		Job: v.Job, Node: v.Node, Base: text(v, keyBase), Head: text(v, keyHead), Key: string(v.Attempt),
		Onward: func(e core.Event) {
			e.Run, e.Node, e.Attempt, e.Actor = v.Job.Run.ID, v.Node, v.Attempt, "platform"
			if err := d.Events.Emit(ctx, v.Job, e); err != nil {
				d.Log.Warn("an event of the proof was not stored", "session", v.Job.Session.ID, "err", err)
			}
		},
	})
	if err != nil {
		return blueprint.Outcome{}, err
	}
	v.Data.Set(keyProof, proof)
	v.Data.Set(blueprint.KeyVerdict, proof.Verdict)
	if err := d.emit(ctx, v, core.EventVerdict, proof.Data); err != nil {
		return blueprint.Outcome{}, err
	}
	detail := strings.Join(proof.Reasons, "; ")
	switch {
	case proof.Verdict == "broken":
		v.Data.Set(keyBrief, reworkBrief(proof.Failures))
		v.Data.Set(blueprint.KeyFailure, core.Failure{Code: "broken", Message: "the change breaks what was green: " + detail, Hint: "look at the evidence and prompt again"})
		return result("broken", "%s", detail)
	case proof.Verdict == "handed_over":
		v.Data.Set(blueprint.KeyFailure, core.Failure{Code: "not_judged", Message: "the proof could not be made: " + detail})
		return result("handed_over", "%s", detail)
	case proof.Verdict == "unproven" && proof.Improvable != "":
		v.Data.Set(keyBrief, strengthenBrief(proof.Improvable))
		return result("improvable", "%s", detail)
	case proof.Verdict == "proven":
		return result("proven", "%s", detail)
	}
	return result("unproven", "%s", detail)
}

// deliver opens or updates the one change of the session.
func (d Deps) deliver(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	s, err := d.Sessions.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	var proof Proof
	v.Data.Get(keyProof, &proof)
	authors, err := d.Sessions.Authors(ctx, v.Job)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	title := s.Title
	if title == "" || strings.HasSuffix(title, "...") { // made from the prompt, and cut within a word
		title = subject(v.Job)
	}
	delivered, err := d.Deliverer.Deliver(ctx, Delivery{
		Key: string(v.Job.Run.ID), Job: v.Job, Title: title, Base: s.Base, Branch: s.Branch, Head: text(v, keyHead),
		Body: body(v.Job, proof, text(v, keySummary)), Authors: authors, Evidence: proof.Evidence, Verdict: proof.Verdict,
	})
	if err != nil {
		return blueprint.Outcome{}, err
	}
	if s.Change != delivered.ID {
		if err := d.Sessions.Fix(ctx, v.Job, Place{Change: delivered.ID}); err != nil {
			return blueprint.Outcome{}, err
		}
	}
	v.Data.Set(blueprint.KeyChange, delivered.ID)
	v.Data.Set(blueprint.KeyOutcome, fmt.Sprintf("change #%d, %s", delivered.Number, proof.Verdict))
	return result("ok", "#%d %s", delivered.Number, delivered.Title)
}

// body puts the platform's facts first and the agent's words last, folded.
func body(job blueprint.Job, proof Proof, summary string) string {
	var b strings.Builder
	b.WriteString(proof.Markdown)
	fmt.Fprintf(&b, "\n"+change.AskedHeading+"%s\n\n%s\n", job.Prompt.Author.Name, quote(head(clean(job.Prompt.Text), 4000)))
	if summary = strings.TrimSpace(clean(summary)); summary != "" {
		fmt.Fprintf(&b, "\n<details><summary>What the agent says (its own words, not evidence)</summary>\n\n%s\n\n</details>\n", quote(head(summary, 8000)))
	}
	return b.String()
}

func quote(s string) string { return "> " + strings.ReplaceAll(s, "\n", "\n> ") }

// answer ends a run whose task asked for words, not for a change.
func (d Deps) answer(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	v.Data.Set(blueprint.KeyOutcome, head(text(v, keySummary), 4000))
	if w, err := d.Workspaces.Open(ctx, v.Job); err == nil {
		if _, _, files, err := d.edited(ctx, v, w); err == nil && len(files) > 0 {
			return result("ok", "answered; %d files were edited and are kept, not delivered", len(files))
		}
	}
	return result("ok", "answered, nothing was changed")
}

// handOver keeps the work reachable and says why a person has it now.
func (d Deps) handOver(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	s, err := d.Sessions.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	var f core.Failure
	v.Data.Get(blueprint.KeyFailure, &f)
	why := f.Message
	if why == "" {
		why = "no reason was recorded"
	}
	v.Data.Set(blueprint.KeyOutcome, why)
	if text(v, blueprint.KeyVerdict) == "" {
		v.Data.Set(blueprint.KeyVerdict, "handed_over")
	}
	wip := text(v, keyWip)
	if wip == "" {
		return result("ok", "%s", why)
	}
	m, err := d.Workspaces.Mirror(ctx, s.Environment)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	files, err := m.ChangedFiles(ctx, s.BaseCommit, wip)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	return result("ok", "%s; %d edited files are kept: `drydock session diff %s`, go on with `drydock session prompt %s \"...\"`", why, len(files), s.ID, s.ID)
}
