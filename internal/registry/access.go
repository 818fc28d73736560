package registry

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/distribution/distribution/v3/registry/auth"
)

const controllerName = "tenon"

// register adds our access controller to the library's table, once a process;
// the authoriser itself comes with each registry's configuration.
var register = sync.OnceValue(func() error {
	return auth.Register(controllerName, func(options map[string]any) (auth.AccessController, error) {
		authorise, ok := options["authorise"].(Authoriser)
		if !ok {
			return nil, errors.New("the registry has no authoriser")
		}
		return controller{authorise}, nil
	})
})

type controller struct{ authorise Authoriser }

// Authorized groups the library's access records by repository (a cross-mount
// names two) and asks the authoriser about each.
func (c controller) Authorized(r *http.Request, access ...auth.Access) (*auth.Grant, error) {
	cred := credentialOf(r)
	grant := &auth.Grant{User: auth.UserInfo{Name: cred.Username}}
	wanted := map[string][]string{}
	for _, a := range access {
		name, action := a.Name, a.Action
		if a.Type != "repository" {
			name, action = "", ActionList
		}
		wanted[name] = append(wanted[name], action)
		grant.Resources = append(grant.Resources, a.Resource)
	}
	if len(wanted) == 0 {
		wanted[""] = nil
	}
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		err := c.authorise(r.Context(), cred, name, wanted[name])
		switch {
		case err == nil:
		case errors.Is(err, ErrUnauthenticated), errors.Is(err, ErrForbidden):
			return nil, challenge{err}
		default:
			noteTrouble(r.Context(), err)
			return nil, fmt.Errorf("authorise %s of %q: %w", strings.Join(wanted[name], ","), name, err)
		}
	}
	return grant, nil
}

func credentialOf(r *http.Request) Credential {
	if user, password, ok := r.BasicAuth(); ok {
		return Credential{Username: user, Password: password}
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return Credential{Password: strings.TrimSpace(token)}
	}
	return Credential{}
}

// challenge asks for basic authentication, which docker, crane and skopeo all
// answer without a token service.
type challenge struct{ cause error }

func (c challenge) Error() string { return c.cause.Error() }

// Unwrap gives the cause.
func (c challenge) Unwrap() error { return c.cause }

func (challenge) SetHeaders(_ *http.Request, w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="Tenon registry: any user name, a Tenon token as the password"`)
}
