// Command drydock-init is PID 1 of every sandbox. It is started by a driver
// with DRYDOCK_TOKEN and DRYDOCK_PORT in its environment; what it does is in
// package supervisor. With --mark it says which build it is of, see guest.Mark.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"drydock/internal/execution/guest"
	"drydock/internal/execution/guest/supervisor"
)

// version is set by the linker.
var version = "dev"

const insideConnections = 8

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "drydock-init:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 2 && os.Args[1] == guest.MarkFlag {
		_, err := fmt.Fprintln(os.Stdout, guest.Mark())
		return err
	}
	token, err := takeToken()
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(os.Getenv("DRYDOCK_PORT"), 10, 16)
	if err != nil {
		return fmt.Errorf("DRYDOCK_PORT: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("0.0.0.0", strconv.FormatUint(port, 10)))
	if err != nil {
		return err
	}
	s, err := supervisor.New(supervisor.Options{
		Root: "/", Token: token, Listen: ln, Env: os.Environ(), Version: version,
		Init: os.Getpid() == 1, Inside: insideConnections,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// tokenFD names the descriptor of a pipe that holds the token.
const tokenFD = "DRYDOCK_TOKEN_FD"

// takeToken gets the token out of sight. Unsetting a variable does not change
// what /proc/1/environ shows, so the program replaces itself once: the token
// goes through a pipe, the new environment does not have it.
func takeToken() (string, error) {
	if fd := os.Getenv(tokenFD); fd != "" {
		n, err := strconv.ParseUint(fd, 10, 16)
		if err != nil {
			return "", fmt.Errorf("%s: %w", tokenFD, err)
		}
		pipe := os.NewFile(uintptr(n), "token")
		defer pipe.Close()
		raw, err := io.ReadAll(io.LimitReader(pipe, 4096))
		return string(raw), err
	}
	token := os.Getenv("DRYDOCK_TOKEN")
	if token == "" {
		return "", fmt.Errorf("DRYDOCK_TOKEN is not set")
	}
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil { // without close-on-exec, on purpose
		return "", err
	}
	if _, err := syscall.Write(ends[1], []byte(token)); err != nil {
		return "", err
	}
	if err := syscall.Close(ends[1]); err != nil {
		return "", err
	}
	env := []string{tokenFD + "=" + strconv.Itoa(ends[0])}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DRYDOCK_TOKEN") {
			env = append(env, kv)
		}
	}
	return "", syscall.Exec("/proc/self/exe", os.Args, env)
}
