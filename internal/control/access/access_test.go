package access_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestABrowserHasASecretOfItsOwn(t *testing.T) {
	s, _ := service(t)
	op := core.Author{Handle: access.Operator}
	tok, secret, err := s.Create(t.Context(), op, core.Author{Handle: "ana"}, "laptop")
	if err != nil {
		t.Fatal(err)
	}
	who, web, err := s.SignIn(t.Context(), secret, "browser: x")
	if err != nil || who.Handle != "ana" {
		t.Fatalf("sign in: %+v, %v", who, err)
	}
	if who, err := s.Visitor(t.Context(), web); err != nil || who.Handle != "ana" {
		t.Errorf("visitor: %+v, %v", who, err)
	}
	for name, try := range map[string]func() error{
		"the browser's secret as a token": func() error { _, err := s.Authenticate(t.Context(), web); return err },
		"a token in a cookie":             func() error { _, err := s.Visitor(t.Context(), secret); return err },
		"the browser's secret signs in":   func() error { _, _, err := s.SignIn(t.Context(), web, ""); return err },
	} {
		if err := try(); !core.Is(err, core.Unauthorized) {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := s.List(t.Context(), who)
	if err != nil || len(list) != 2 || list[0].Kind != store.TokenWeb || list[0].Parent != tok.ID || list[0].Label != "browser: x" {
		t.Errorf("tokens of ana: %+v, %v", list, err)
	}
	if err := s.Revoke(t.Context(), who, tok.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Visitor(t.Context(), web); !core.Is(err, core.Unauthorized) {
		t.Errorf("the browser outlives the token it was signed in with: %v", err)
	}
}

func TestACodeIsGoodOnce(t *testing.T) {
	s, file := service(t)
	secret, _ := os.ReadFile(file)
	op := strings.TrimSpace(string(secret))
	code, expires, err := s.Code(t.Context(), op)
	if err != nil || len(code) != access.CodeLen || time.Until(expires) > access.CodeLife {
		t.Fatalf("code %q until %v, %v", code, expires, err)
	}
	typed := strings.ToUpper(code[:4] + "-" + code[4:] + " ")
	if who, _, err := s.SignIn(t.Context(), typed, ""); err != nil || who.Handle != access.Operator {
		t.Errorf("a code as people type it: %+v, %v", who, err)
	}
	if _, _, err := s.SignIn(t.Context(), code, ""); !core.Is(err, core.Unauthorized) {
		t.Errorf("the second use: %v", err)
	}
	first, _, _ := s.Code(t.Context(), op)
	for range 5 {
		if _, _, err := s.Code(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.SignIn(t.Context(), first, ""); !core.Is(err, core.Unauthorized) {
		t.Errorf("the oldest of too many codes: %v", err)
	}
	if _, _, err := s.Code(t.Context(), "ddk_wrong"); !core.Is(err, core.Unauthorized) {
		t.Errorf("a code for nobody: %v", err)
	}
}

func TestAnUnusedBrowserIsForgotten(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "drydock.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := access.New(db)
	file := filepath.Join(dir, "token")
	if err := s.Bootstrap(t.Context(), file, core.Author{}); err != nil {
		t.Fatal(err)
	}
	secret, _ := os.ReadFile(file)
	old := time.Now().Add(-access.WebUnused - time.Minute)
	err = db.CreateToken(t.Context(), store.Token{
		ID: core.NewTokenID(), Hash: store.HashToken("ddw_old"), User: access.Operator, Kind: store.TokenWeb, Created: old, LastUsed: old,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Visitor(t.Context(), "ddw_old"); !core.Is(err, core.Unauthorized) {
		t.Errorf("a browser that was not used for a month: %v", err)
	}
	for range 60 {
		if _, _, err := s.SignIn(t.Context(), strings.TrimSpace(string(secret)), ""); err != nil {
			t.Fatal(err)
		}
	}
	list, err := db.Tokens(t.Context(), access.Operator)
	if err != nil || len(list) != 51 { // the operator's own, and 50 browsers
		t.Errorf("%d tokens after 60 sign-ins, %v", len(list), err)
	}
}
