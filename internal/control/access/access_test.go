package access_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock/internal/control/access"
	"drydock/internal/core"
	"drydock/internal/store"
)

func service(t *testing.T) (*access.Service, string) {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "drydock.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := access.New(db)
	file := filepath.Join(dir, "token")
	if err := s.Bootstrap(t.Context(), file, core.Author{Name: "Op", Email: "op@example.test"}); err != nil {
		t.Fatal(err)
	}
	return s, file
}

func TestBootstrapToken(t *testing.T) {
	s, file := service(t)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("token file: %v, %v; want mode 0600", info.Mode(), err)
	}
	first, _ := os.ReadFile(file)
	if err := s.Bootstrap(t.Context(), file, core.Author{Name: "Op", Email: "op@example.test"}); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(file); string(again) != string(first) {
		t.Error("a second start changed a working token")
	}
	who, err := s.Authenticate(t.Context(), strings.TrimSpace(string(first)))
	if err != nil || who.Handle != access.Operator {
		t.Errorf("the file's token is %+v, %v", who, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.Bootstrap(t.Context(), file, core.Author{}); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) == string(first) {
		t.Errorf("a lost file was not made anew: %v", err)
	}
}

func TestOnlyTheOperatorMakesPeople(t *testing.T) {
	s, _ := service(t)
	op := core.Author{Handle: access.Operator}
	tok, secret, err := s.Create(t.Context(), op, core.Author{Handle: "ana", Name: "Ana", Email: "ana@example.test"}, "laptop")
	if err != nil {
		t.Fatal(err)
	}
	ana, err := s.Authenticate(t.Context(), secret)
	if err != nil || ana.Name != "Ana" {
		t.Fatalf("ana = %+v, %v", ana, err)
	}
	if _, _, err := s.Create(t.Context(), ana, core.Author{Handle: "bo"}, ""); !core.Is(err, core.Denied) {
		t.Errorf("ana made a second person: %v", err)
	}
	if _, _, err := s.Create(t.Context(), op, core.Author{Handle: "ana", Name: "Not Ana"}, ""); !core.Is(err, core.Conflict) {
		t.Errorf("a token changed who ana is: %v", err)
	}
	if _, _, err := s.Create(t.Context(), op, core.Author{Handle: "a<b>"}, ""); !core.Is(err, core.Invalid) {
		t.Errorf("a handle with markup: %v", err)
	}
	if err := s.Revoke(t.Context(), core.Author{Handle: "bo"}, tok.ID); !core.Is(err, core.NotFound) {
		t.Errorf("somebody else revoked ana's token: %v", err)
	}
	if err := s.Revoke(t.Context(), ana, tok.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Authenticate(t.Context(), secret); !core.Is(err, core.Unauthorized) {
		t.Errorf("a revoked token still works: %v", err)
	}
}
