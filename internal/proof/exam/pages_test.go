package exam_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/proof/browser"
	"drydock/internal/proof/evidence"
	"drydock/internal/proof/exam"
	"drydock/internal/store/blob"
	"drydock/internal/testkit/need"
)

// pageRooms are host rooms with one service, a small web shop, and a browser.
type pageRooms struct {
	hostRooms
	port int
}

type pageRoom struct {
	*hostRoom
	port  int
	serve *exec.Cmd
}

func (p *pageRooms) Open(ctx context.Context, req exam.RoomRequest) (exam.Room, error) {
	room, err := p.hostRooms.Open(ctx, req)
	if err != nil {
		return nil, err
	}
	host, _ := room.(*hostRoom)
	return &pageRoom{hostRoom: host, port: p.port}, nil
}

func group(argv []string, dir string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func end(cmd *exec.Cmd) {
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-done
}

func (r *pageRoom) Ready(ctx context.Context) error {
	r.serve = group([]string{"node", "serve.mjs", strconv.Itoa(r.port)}, r.root)
	if err := r.serve.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := r.Dial(ctx, r.port)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("web: connection refused")
		}
	}
}

func (r *pageRoom) Dial(ctx context.Context, port int) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func (r *pageRoom) Start(_ context.Context, argv []string) (func(), func() string, error) {
	cmd := group(argv, r.root)
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return func() { end(cmd) }, func() string { return "" }, nil
}

func (r *pageRoom) Close(ctx context.Context) error {
	if r.serve != nil {
		end(r.serve)
	}
	return r.hostRoom.Close(ctx)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

const serve = `import http from 'node:http';
import { total } from './price.mjs';
http.createServer((q, s) => {
  if (q.url !== '/') { s.writeHead(404); s.end(); return; }
  s.writeHead(200, {'content-type': 'text/html'});
  s.end('<title>Shop</title><p id=t></p><div style="font:40px sans-serif">Total: ' + total([1, 2, 3]) + '</div><script>t.textContent = new Date() + Math.random()</script>EXTRA');
}).listen(Number(process.argv[2]), '127.0.0.1');
`

// The whole way: checks, pictures, verdict, bundle, verification, rerun.
func TestShopWithPages(t *testing.T) {
	need.Chromium(t)
	need.Program(t, "node")
	repo := newRepository(t)
	base := repo.commit(map[string]string{
		"serve.mjs":      strings.Replace(serve, "EXTRA", "", 1),
		"price.mjs":      "export function total(p) { let s = 0; for (let i = 1; i < p.length; i++) s += p[i]; return s; }\n",
		"price.test.mjs": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { total } from './price.mjs';\ntest('nothing', () => assert.equal(total([]), 0));\n",
	})
	head := repo.commit(map[string]string{
		"serve.mjs":    strings.Replace(serve, "EXTRA", "<script>console.error(\"new fault\"); fetch(\"/none\")</script>", 1),
		"price.mjs":    "export function total(p) { return p.reduce((a, b) => a + b, 0); }\n",
		"sum.test.mjs": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { total } from './price.mjs';\ntest('adds all', () => assert.equal(total([1, 2, 3]), 6));\n",
	})
	port := freePort(t)
	address := "http://127.0.0.1:" + strconv.Itoa(port) + "/"
	blobs, err := blob.New(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	rooms := &pageRooms{hostRooms: hostRooms{t: t, repo: repo.dir}, port: port}
	examiner := exam.New(exam.Deps{
		Rooms: rooms, Repo: repo.repo(), Photographer: browser.Photographer{}, Artifacts: evidence.Keeper{Blobs: blobs},
	}, exam.Options{Parallel: 1})
	ex := exam.Exam{
		Repository: "shop", Environment: "shop", Snapshot: "snp", Base: base, Head: head, Kind: exam.KindFix, Services: true,
		Checks: []exam.CheckSpec{{Name: "test", Run: "node --test --test-reporter=tap", Report: "tap"}},
		Pages:  []exam.Page{{Name: "home", URL: address, Width: 640, Height: 480}},
	}
	got, err := examiner.Run(t.Context(), ex)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, exam.Proven, exam.CodeProven, "fixed: adds all (red on the base 2/2, green on the branch 3/3)")
	if m := got.Cases[0].Message; !strings.HasPrefix(m, "AssertionError: ") {
		t.Errorf("message %q", m)
	}
	if len(got.Pictures) != 1 {
		t.Fatalf("%d pictures", len(got.Pictures))
	}
	p := got.Pictures[0]
	if p.Before == nil || p.After == nil || p.Difference == nil || p.Changed == 0 || p.Changed > 0.05 || len(p.Boxes) == 0 || p.Problem != "" {
		t.Errorf("%+v", p)
	}
	if len(p.NewErrors) != 1 || p.NewErrors[0] != "new fault" || len(p.NewFailures) != 1 || p.NewFailures[0] != "GET "+address+"none: 404" {
		t.Errorf("new errors %q, new failures %q", p.NewErrors, p.NewFailures)
	}
	key, err := evidence.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	if _, err := evidence.Write(t.Context(), dir, evidence.Input{ID: core.NewEvidenceID(), Result: got, Blobs: blobs, Key: key}); err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(t.Context(), dir, []evidence.PublicKey{key.Public()})
	if err != nil || !report.OK {
		t.Errorf("%v: %s", err, report)
	}
	m, err := evidence.ReadManifest(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := evidence.Rerun(t.Context(), m, examiner.Run)
	if err != nil || again.Answer != evidence.Same {
		t.Errorf("%v: %+v", err, again)
	}
	if text := evidence.Markdown(got, evidence.MarkdownOptions{}); !strings.Contains(text, "new console error: `new fault`") {
		t.Errorf("summary:\n%s", text)
	}
	if conn, err := net.Dial("tcp", strings.Trim(address, "htp:/")); err == nil {
		_ = conn.Close()
		t.Error("a server was left running")
	}
}
