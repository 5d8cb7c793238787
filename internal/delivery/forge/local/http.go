package local

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drydock/internal/core"
)

// Authenticate says who presents a user name and a secret (a token). It is
// Unauthorized when they are nobody, Denied when they may not.
type Authenticate func(ctx context.Context, user, secret string) (core.Author, error)

// HTTPOptions of the git server.
type HTTPOptions struct {
	Prefix   string // of the path, for example "/git"; repositories are below it
	MaxBody  int64  // bytes of one push; default 4 GiB
	OnPush   func(repository string)
	Programs string // PATH for git and its helpers; default the usual directories
}

// Handler serves git's smart HTTP protocol. Everybody who is somebody may fetch
// and push any branch; refs of Drydock's own are hidden, and the base of
// changes is moved forward only.
func (f *Forge) Handler(auth Authenticate, opts HTTPOptions) (http.Handler, error) {
	if opts.MaxBody <= 0 {
		opts.MaxBody = 4 << 30
	}
	if opts.Programs == "" {
		opts.Programs = "/usr/local/bin:/usr/bin:/bin"
	}
	g := &gitServer{forge: f, auth: auth, opts: opts, dir: filepath.Join(f.opts.Dir, "http")}
	if err := g.prepare(); err != nil {
		return nil, core.E("forge.http", core.Internal, err, "directory %s", g.dir)
	}
	return g, nil
}

type gitServer struct {
	forge *Forge
	auth  Authenticate
	opts  HTTPOptions
	dir   string
}

// updateHook runs before each branch moves. The protected branches come in by
// the environment, one per line.
const updateHook = `#!/bin/sh
ref=$1 old=$2 new=$3
case $ref in refs/heads/*|refs/tags/*) ;; *) echo "only branches and tags can be pushed" >&2; exit 1 ;; esac
printf '%s\n' "$DRYDOCK_PROTECTED" | grep -Fqx -- "$ref" || exit 0
case $new in *[!0]*) ;; *) echo "$ref is the base of changes and cannot be removed" >&2; exit 1 ;; esac
case $old in *[!0]*) ;; *) exit 0 ;; esac
git merge-base --is-ancestor "$old" "$new" && exit 0
echo "$ref is the base of changes: it moves forward only" >&2
exit 1
`

const gitSettings = `[safe]
	directory = *
[core]
	hooksPath = %HOOKS%
	fsmonitor = false
	logAllRefUpdates = always
	alternateRefsCommand = true
[transfer]
	hideRefs = refs/drydock
	fsckObjects = true
[receive]
	fsckObjects = true
	autogc = false
	denyDeleteCurrent = refuse
[uploadpack]
	allowFilter = true
[http]
	receivepack = true
	uploadpack = true
	getanyfile = false
[gc]
	auto = 0
[maintenance]
	auto = false
`

func (g *gitServer) prepare() error {
	hooks := filepath.Join(g.dir, "hooks")
	if err := os.MkdirAll(hooks, 0o700); err != nil {
		return err
	}
	if err := replace(filepath.Join(hooks, "update"), updateHook, 0o700); err != nil {
		return err
	}
	return replace(filepath.Join(g.dir, "gitconfig"), strings.ReplaceAll(gitSettings, "%HOOKS%", hooks), 0o600)
}

func replace(path, content string, mode os.FileMode) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(content), mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

var gitPath = regexp.MustCompile(`^/([^/]+)\.git/(info/refs|git-upload-pack|git-receive-pack)$`)

func (g *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, err := g.identify(r)
	if err != nil {
		if core.Is(err, core.Unauthorized) {
			w.Header().Set("WWW-Authenticate", `Basic realm="drydock", charset="UTF-8"`)
		}
		http.Error(w, err.Error(), core.KindOf(err).HTTPStatus())
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, strings.TrimRight(g.opts.Prefix, "/"))
	parts := gitPath.FindStringSubmatch(path)
	if !ok || parts == nil || checkName(parts[1]) != nil {
		http.Error(w, "no such repository", http.StatusNotFound)
		return
	}
	name, action := parts[1], parts[2]
	post := r.Method == http.MethodPost
	if r.Method != http.MethodGet && !post || post == (action == "info/refs") {
		http.Error(w, "wrong method", http.StatusMethodNotAllowed)
		return
	}
	record, err := g.forge.records.Repository(r.Context(), name)
	if err != nil {
		http.Error(w, "no such repository", core.KindOf(err).HTTPStatus())
		return
	}
	if _, err := g.forge.repo(r.Context(), name); err != nil {
		http.Error(w, "the repository is not available", core.KindOf(err).HTTPStatus())
		return
	}
	protected, err := g.protected(r.Context(), record.DefaultBranch, name)
	if err != nil {
		http.Error(w, "the repository is not available", core.KindOf(err).HTTPStatus())
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, g.opts.MaxBody)
	if err := g.run(w, r, who, path, protected); err != nil {
		g.forge.log.Warn("git over http", "repository", name, "err", err)
		panic(http.ErrAbortHandler)
	}
	if action == "git-receive-pack" && g.opts.OnPush != nil {
		g.opts.OnPush(name)
	}
}

// identify reads a bearer token, or the password of basic authentication.
func (g *gitServer) identify(r *http.Request) (core.Author, error) {
	user, secret, ok := r.BasicAuth()
	if !ok {
		secret, ok = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	if !ok || secret == "" {
		return core.Author{}, core.E("forge.http", core.Unauthorized, nil, "a token is needed").
			WithHint("use it as the password, with any user name")
	}
	return g.auth(r.Context(), user, secret)
}

// protected lists the branches that only move forward.
func (g *gitServer) protected(ctx context.Context, standard, name string) (string, error) {
	refs := map[string]bool{heads + standard: true}
	for page := (core.Page{Limit: core.MaxPage}); ; {
		list, next, err := g.forge.records.Changes(ctx, core.ChangeFilter{Repository: name, State: core.ChangeOpen}, page)
		if err != nil {
			return "", err
		}
		for _, c := range list {
			refs[heads+c.Base] = true
		}
		if next == "" {
			break
		}
		page.Cursor = next
	}
	var out []string
	for ref := range refs {
		out = append(out, ref)
	}
	return strings.Join(out, "\n"), nil
}

func (g *gitServer) environment(r *http.Request, who core.Author, path, protected string) []string {
	sign := mailbox(who, time.Now())
	clean := strings.NewReplacer("<", "", ">", "", "\n", "", "\r", "", "\x00", "")
	env := []string{
		"PATH=" + g.opts.Programs, "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + filepath.Join(g.dir, "gitconfig"),
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_PROJECT_ROOT=" + g.forge.opts.Dir, "GIT_HTTP_EXPORT_ALL=1",
		"GIT_COMMITTER_NAME=" + clean.Replace(who.Handle), "GIT_COMMITTER_EMAIL=" + clean.Replace(sign.Email),
		"DRYDOCK_PROTECTED=" + protected,
		"REMOTE_USER=" + clean.Replace(who.Handle), "REMOTE_ADDR=" + r.RemoteAddr,
		"REQUEST_METHOD=" + r.Method, "PATH_INFO=" + path, "QUERY_STRING=" + r.URL.RawQuery,
		"CONTENT_TYPE=" + r.Header.Get("Content-Type"), "SERVER_PROTOCOL=HTTP/1.1", "GATEWAY_INTERFACE=CGI/1.1",
	}
	if r.ContentLength >= 0 {
		env = append(env, "CONTENT_LENGTH="+strconv.FormatInt(r.ContentLength, 10))
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" {
		env = append(env, "HTTP_CONTENT_ENCODING="+enc)
	}
	if version := r.Header.Get("Git-Protocol"); version != "" && len(version) < 200 {
		env = append(env, "GIT_PROTOCOL="+version)
	}
	return env
}

// run hands the request to git http-backend. Its body is streamed: clients send
// large pushes in chunks, without saying how long they are.
func (g *gitServer) run(w http.ResponseWriter, r *http.Request, who core.Author, path, protected string) error {
	cmd := exec.CommandContext(r.Context(), "git", "http-backend")
	cmd.Dir = g.dir
	cmd.Env = g.environment(r, who, path, protected)
	cmd.Stdin = r.Body
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	stderr := &limited{to: &strings.Builder{}, left: 8 << 10}
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	copyErr := answer(w, stdout)
	if copyErr != nil {
		_ = cmd.Cancel()
	}
	if err := errors.Join(copyErr, cmd.Wait()); err != nil {
		return core.E("forge.http", core.Internal, err, "git http-backend: %s", strings.TrimSpace(stderr.to.String()))
	}
	return nil
}

// answer turns what a CGI program writes into an answer.
func answer(w http.ResponseWriter, stdout io.Reader) error {
	reader := bufio.NewReaderSize(io.LimitReader(stdout, 1<<40), 32<<10)
	head, err := textproto.NewReader(reader).ReadMIMEHeader()
	if err != nil {
		return err
	}
	status := http.StatusOK
	for key, values := range head {
		switch key {
		case "Status":
			text, _, _ := strings.Cut(values[0], " ")
			code, err := strconv.Atoi(text)
			if err != nil || code < 200 || code > 599 {
				return core.E("forge.http", core.Internal, err, "status %q", clip(values[0], 40))
			}
			status = code
		default:
			w.Header()[key] = values
		}
	}
	w.WriteHeader(status)
	_, err = io.Copy(w, reader)
	return err
}
