package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Login is a user name and password for a registry that is not ours.
type Login struct{ Username, Password string }

// ErrLoginRefused is a registry's answer to a wrong user name or password.
var ErrLoginRefused = errors.New("the registry refuses this user name and password")

// CheckLogin asks a registry whether it takes a login, by the protocol's own
// /v2/ and its token service if it has one. nil also means that it asks nobody
// for a password there. The text of any other error is fit for the user.
func (r Resolver) CheckLogin(ctx context.Context, host string, login Login) error {
	reg, err := name.NewRegistry(host)
	if err != nil {
		return fmt.Errorf("%q is not a registry's host", host)
	}
	limit := r.Limit
	if limit <= 0 {
		limit = 15 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	signedIn, err := transport.NewWithContext(ctx, reg, &authn.Basic{Username: login.Username, Password: login.Password}, r.outside(), nil)
	if err != nil {
		return loginAnswer(host, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, reg.Scheme()+"://"+reg.RegistryStr()+"/v2/", nil)
	if err != nil {
		return fmt.Errorf("%q is not a registry's host", host)
	}
	client := &http.Client{Transport: signedIn, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return loginAnswer(host, err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := transport.CheckError(res, http.StatusOK); err != nil {
		return loginAnswer(host, err)
	}
	return nil
}

// loginAnswer tells a refusal from a registry that can't be asked.
func loginAnswer(host string, err error) error {
	var said *transport.Error
	if errors.As(err, &said) && (said.StatusCode == http.StatusUnauthorized || said.StatusCode == http.StatusForbidden) {
		return ErrLoginRefused
	}
	return inWords(host, err)
}

var errPlain = errors.New("a password would cross a network in the clear")

// closed sends no password over plain HTTP, whatever a registry's challenge or a
// redirect says; where private registries are allowed, it may go to a private
// address.
type closed struct {
	http.RoundTripper
	private bool
}

func (c closed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && r.Header.Get("Authorization") != "" && !(c.private && privateHost(r.URL.Hostname())) {
		return nil, errPlain
	}
	return c.RoundTripper.RoundTrip(r)
}

func privateHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (addr.IsLoopback() || addr.IsPrivate())
}
