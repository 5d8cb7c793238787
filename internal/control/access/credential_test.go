package access_test

import (
	"os"
	"strings"
	"testing"

	"drydock/internal/control/access"
	"drydock/internal/core"
)

func TestACredentialEndsWithItsSecret(t *testing.T) {
	s, file := service(t)
	data, _ := os.ReadFile(file)
	op := strings.TrimSpace(string(data))
	_, web, err := s.SignIn(t.Context(), op, "browser")
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"token": op, "browser": web} {
		c := access.Credential(secret)
		if who, err := s.Still(t.Context(), c); err != nil || who.Handle != access.Operator {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
		if strings.Contains(c, secret) || access.IsSecret(c) {
			t.Errorf("%s: the credential shows the secret", name)
		}
		if _, err := s.Authenticate(t.Context(), c); !core.Is(err, core.Unauthorized) {
			t.Errorf("%s: a credential lets somebody in: %v", name, err)
		}
	}
	if err := s.SignOut(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{access.Credential(web), "", "web:", "api:x", access.Credential("something else"), access.Credential("ddk_unknown")} {
		if _, err := s.Still(t.Context(), c); !core.Is(err, core.Unauthorized) {
			t.Errorf("credential %q: %v", c, err)
		}
	}
}
