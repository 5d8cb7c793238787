package surfacetest

import (
	"context"
	"fmt"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

type visitors struct{ w *World }

// SignIn takes a token, or the code that LoginCode gave, as often as it likes.
func (v visitors) SignIn(ctx context.Context, secret, _ string) (core.Author, string, error) {
	who, err := tokens(v).Authenticate(ctx, secret)
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	if handle, ok := v.w.browsers["code "+secret]; ok {
		delete(v.w.browsers, "code "+secret)
		who, err = v.w.users[handle], nil
	}
	if err != nil {
		return core.Author{}, "", err
	}
	made := fmt.Sprintf("browser-%d", len(v.w.browsers))
	v.w.browsers[made] = who.Handle
	return who, made, nil
}

func (v visitors) Visitor(_ context.Context, secret string) (core.Author, error) {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	handle, ok := v.w.browsers[secret]
	if !ok {
		return core.Author{}, core.E("visitor", core.Unauthorized, nil, "this browser is not signed in any more").WithHint("sign in again")
	}
	return v.w.users[handle], nil
}

func (v visitors) SignOut(_ context.Context, secret string) error {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	delete(v.w.browsers, secret)
	return nil
}

func (v visitors) LoginCode(ctx context.Context, secret string) (api.LoginCode, error) {
	who, err := tokens(v).Authenticate(ctx, secret)
	if err != nil {
		return api.LoginCode{}, err
	}
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	v.w.browsers["code abcd2345"] = who.Handle
	return api.LoginCode{Code: "abcd2345", Expires: v.w.now.Add(5 * time.Minute)}, nil
}
