package supervisor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

func TestFollowOutput(t *testing.T) {
	c, root := serve(t)
	cmd := sh("echo one; while [ ! -e go ]; do sleep 0.02; done; printf 'two\\000\\n'")
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Output(t.Context(), p.ID, guest.Stdout, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(out, first); err != nil {
		t.Fatal(err)
	}
	_ = out.Close() // a reader goes away, and comes back where it was
	if _, err := out.Read(first); err == nil {
		t.Error("a closed reader reads")
	}
	out, err = c.Output(t.Context(), p.ID, guest.Stdout, 4, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := os.WriteFile(filepath.Join(root, "workspace", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil || string(rest) != "two\x00\n" || out.Offset() != 9 {
		t.Errorf("got %q, %v, offset %d", rest, err, out.Offset())
	}
}

func TestReaderBehindTheRingIsToldWhatIsLost(t *testing.T) {
	c, _ := serve(t, func(o *Options) { o.RingBytes = 64 << 10 })
	res := mustRun(t, c, sh("head -c 200000 /dev/zero | tr '\\0' x; printf END"))
	out, err := c.Output(t.Context(), res.Process, guest.Stdout, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	raw, err := io.ReadAll(out)
	if err != nil || len(raw) != 64<<10 || out.Lost() != 200003-64<<10 || !bytes.HasSuffix(raw, []byte("xEND")) {
		t.Errorf("read %d, lost %d, %v", len(raw), out.Lost(), err)
	}
}

// The ring holds what a plain slice would hold, for any sequence of writes.
func TestRingIsASliceThatForgets(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		failing := seed%5 == 4
		dir := t.TempDir()
		size := int64(headBytes + rng.IntN(100_000))
		r := newRing(size, func() (*os.File, error) {
			if failing {
				return nil, errors.New("no space")
			}
			return os.Create(filepath.Join(dir, "ring"))
		})
		var all []byte
		for range 60 {
			chunk := make([]byte, rng.IntN(20_000))
			for i := range chunk {
				chunk[i] = byte(rng.Uint32())
			}
			if rng.IntN(20) == 0 {
				chunk = bytes.Repeat(chunk, 30)
			}
			all = append(all, chunk...)
			_, _ = r.Write(chunk)
			first, end, _ := r.Bounds()
			if end != int64(len(all)) || end > first && end-first > max(size, rescueBytes) {
				t.Fatalf("seed %d: bounds %d..%d after %d bytes", seed, first, end, len(all))
			}
			if want := end - size; !failing && first != max(0, want) {
				t.Fatalf("seed %d: first %d, want %d", seed, first, max(0, want))
			}
			from := first + rng.Int64N(end-first+1)
			got := readRange(r, from, int(end-from))
			if !bytes.Equal(got, all[from:end]) {
				t.Fatalf("seed %d: bytes %d..%d differ (first %d)", seed, from, end, first)
			}
		}
		if !bytes.Equal(r.Head(100), all[:100]) {
			t.Fatalf("seed %d: the head is lost", seed)
		}
		r.Discard()
	}
}

func TestTerminal(t *testing.T) {
	c, _ := serve(t)
	cmd := guest.Command{Argv: []string{"bash", "--norc", "--noediting"}, PTY: &guest.Size{Rows: 24, Cols: 80}, Env: []string{"PS1=ready>"}}
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	text := func() string {
		out, err := c.Output(t.Context(), p.ID, guest.Stdout, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		raw, _ := io.ReadAll(out)
		return string(raw)
	}
	type_ := func(s string) {
		if err := c.Write(t.Context(), p.ID, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a prompt", func() bool { return strings.Contains(text(), "ready>") })
	if err := c.Resize(t.Context(), p.ID, guest.Size{Rows: 50, Cols: 132}); err != nil {
		t.Fatal(err)
	}
	type_("stty size; tty; echo $TERM\n")
	eventually(t, "size and name", func() bool {
		s := text()
		return strings.Contains(s, "50 132") && strings.Contains(s, "/dev/pts/") && strings.Contains(s, "xterm-256color")
	})
	type_("sh -c 'echo in-$((2+2)); exec sleep 300'\n")
	eventually(t, "the job is in front", func() bool { return strings.Contains(text(), "in-4") })
	type_("\x03")
	type_("echo after-$((1+1))\n") // job control works: the shell survived
	eventually(t, "Ctrl-C reaches the job alone", func() bool { return strings.Contains(text(), "after-2") })
	if err := c.CloseStdin(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	end, err := c.Wait(t.Context(), p.ID)
	if err != nil || end.ExitCode != 0 {
		t.Errorf("end of file: %+v, %v", end, err)
	}
}

func TestTerminalHangUpAndKillReachJobs(t *testing.T) {
	c, _ := serve(t)
	cmd := guest.Command{Argv: []string{"bash", "--norc", "-ic", "sleep 301 & sleep 302"}, PTY: &guest.Size{Rows: 24, Cols: 80}}
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	session := strconv.Itoa(p.Pid)
	count := func() int {
		res := mustRun(t, c, sh("ps -o pid=,stat= -s "+session+" | grep -v Z | wc -l"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(res.Stdout)))
		return n
	}
	eventually(t, "shell and jobs", func() bool { return count() == 3 })
	if err := c.Signal(t.Context(), p.ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() bool { return count() == 0 })
	if err := c.Signal(t.Context(), p.ID, "NOPE"); !core.Is(err, core.Invalid) {
		t.Errorf("unknown signal: %v", err)
	}
}

func TestStdin(t *testing.T) {
	c, _ := serve(t)
	p, err := c.Start(t.Context(), guest.Command{Argv: []string{"sort"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"b\n", "a\n"} {
		if err := c.Write(t.Context(), p.ID, []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.CloseStdin(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), p.ID, []byte("late")); !core.Is(err, core.Conflict) {
		t.Errorf("write after the end: %v", err)
	}
	// A process that does not read does not hold the writer for ever.
	slow, err := c.Start(t.Context(), guest.Command{Argv: []string{"sleep", "300"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Write(ctx, slow.ID, make([]byte, 1<<20)); err == nil {
		t.Error("written although nobody reads")
	}
	if err := c.Stop(t.Context(), slow.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if end, err := c.Wait(t.Context(), slow.ID); err != nil || end.Signal != "TERM" {
		t.Errorf("%+v, %v", end, err)
	}
}

func TestTunnel(t *testing.T) {
	c, _ := serve(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello from "+r.URL.Path)
	}))
	defer web.Close()
	_, portText, _ := net.SplitHostPort(web.Listener.Addr().String())
	port, _ := strconv.Atoi(portText)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.Tunnel(ctx, port)
	}, DisableKeepAlives: true}}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://preview.test/x", nil)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(body) != "hello from /x" {
		t.Errorf("got %q", body)
	}
	if err := c.Reach(t.Context(), port); err != nil {
		t.Error(err)
	}
	ports, err := c.Ports(t.Context())
	if err != nil || !strings.Contains(portList(ports), ","+portText+",") {
		t.Errorf("ports %v, %v", ports, err)
	}
	web.Close()
	if _, err := c.Tunnel(t.Context(), port); !core.Is(err, core.Unavailable) {
		t.Errorf("tunnel to nobody: %v", err)
	}
	if err := c.Reach(t.Context(), port); !core.Is(err, core.Unavailable) {
		t.Errorf("reach nobody: %v", err)
	}
}

func portList(ports []guest.Port) string {
	out := ","
	for _, p := range ports {
		out += strconv.Itoa(p.Port) + ","
	}
	return out
}
