package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var (
	errPlain     = errors.New("the registry would have the password sent in the clear, which is refused")
	errElsewhere = errors.New("the registry's token service sends its callers elsewhere, which is not followed with a password")
)

// signIn takes the password of a private image's registry. One for another host
// is not used: what the control plane says and what the image says must agree.
func (s *source) signIn(ctx context.Context, img nodewire.Image, secrets Secrets) error {
	if !img.Private || img.Embedded {
		return nil
	}
	if secrets == nil {
		return refuse("its registry wants a password, and this node was given none", nil)
	}
	got, err := secrets(ctx)
	if err != nil {
		return fmt.Errorf("ask for the registry's password: %w", err)
	}
	if got.Registry == nil {
		return nil // the credential has gone: the registry says what it thinks of that
	}
	if !s.isHost(got.Registry.Host) {
		return refuse(fmt.Sprintf("the password is for %s, and the image lies at %s", printable(got.Registry.Host), s.host), nil)
	}
	s.login = got.Registry
	return nil
}

// isHost compares a credential's host with the one that is asked: Docker Hub's
// registry has another name than its images.
func (s source) isHost(host string) bool {
	asked, err := docker.DefaultHost(strings.ToLower(host))
	return err == nil && asked == s.host
}

// authorizer answers a registry's challenges: with the login if there is one, and
// to the registry's own host alone.
func (s source) authorizer(transport http.RoundTripper) []docker.AuthorizerOpt {
	client := &http.Client{Transport: tokenBound{transport, s}}
	if s.login == nil {
		return []docker.AuthorizerOpt{docker.WithAuthClient(client)}
	}
	// A token service that sends its caller elsewhere would have a password go
	// along in the form that was posted.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return errElsewhere }
	return []docker.AuthorizerOpt{docker.WithAuthClient(client), docker.WithAuthCreds(func(host string) (string, string, error) {
		if host != s.host {
			return "", "", nil
		}
		return s.login.Username, s.login.Password, nil
	})}
}

// homebound takes the authorisation off a request that leaves the registry: the
// standard library keeps it on a redirect to a host below, and blobs often lie
// elsewhere.
type homebound struct {
	http.RoundTripper
	source source
}

func (h homebound) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" && (r.URL.Host != h.source.host || r.URL.Scheme != h.source.scheme) {
		r = r.Clone(r.Context())
		r.Header.Del("Authorization")
	}
	return h.RoundTripper.RoundTrip(r)
}

// tokenBound keeps a password off plain HTTP when a registry names its token
// service; a registry on this machine may have one here.
type tokenBound struct {
	http.RoundTripper
	source source
}

func (t tokenBound) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.source.login != nil && r.URL.Scheme != "https" && !(t.source.scheme == "http" && isLoopback(r.URL.Host)) {
		return nil, errPlain
	}
	return t.RoundTripper.RoundTrip(r)
}
