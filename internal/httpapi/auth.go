package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

const refreshCookie = "tenon_refresh"

// Browser is what the operations that use the refresh cookie need to know of a
// browser's request.
type Browser struct {
	Strict
	Host      string `hidden:"true"`
	Origin    string `header:"Origin" hidden:"true"`
	FetchSite string `header:"Sec-Fetch-Site" hidden:"true"`
	UserAgent string `header:"User-Agent" hidden:"true"`
	Cookie    string `cookie:"tenon_refresh" hidden:"true"`
}

// Resolve implements huma.Resolver: another site's page is refused before its
// body is looked at.
func (b *Browser) Resolve(ctx huma.Context) []error {
	b.Host = ctx.Host()
	return b.Strict.Resolve(ctx)
}

func (b *Browser) sameOrigin() error { return sameOrigin(b.Host, b.Origin, b.FetchSite) }

type sessionOut struct {
	SetCookie http.Cookie `header:"Set-Cookie" hidden:"true"`
	Body      api.Session
}

func (s *server) authOperations() {
	register(s, operation{method: "POST", path: "/v1/auth/login", public: "session.create", why: "signing in is how one gets a token",
		tag: "Sign-in", summary: "Sign in with a password", status: 200,
		description: "The answer carries a short-lived access token; a cookie that scripts can't read keeps the session."}, s.login)
	register(s, operation{method: "POST", path: "/v1/auth/refresh", public: "session.refresh", why: "the refresh cookie is the credential",
		tag: "Sign-in", summary: "Get a fresh access token", status: 200}, s.refresh)
	register(s, operation{method: "POST", path: "/v1/auth/logout", public: "session.delete", why: "the refresh cookie is the credential; without one there is nothing to end",
		tag: "Sign-in", summary: "Sign out", status: 204}, s.logout)
	register(s, operation{method: "GET", path: "/v1/me", action: authz.MeRead, tag: "Sign-in", summary: "Who you are and what you may do"}, s.me)
	register(s, operation{method: "PUT", path: "/v1/me/password", action: authz.PasswordUpdate, tag: "Sign-in", summary: "Change your password",
		description: "Needs the present one. Your other sessions end; API tokens stay.", status: 204}, s.passwordChange)
}

func (s *server) login(ctx context.Context, in *struct {
	Browser
	Body api.Login
}) (*sessionOut, error) {
	if err := in.sameOrigin(); err != nil {
		return nil, err
	}
	grant, err := s.app.Login(ctx, app.LoginInput{Email: in.Body.Email, Password: in.Body.Password, UserAgent: clip(in.UserAgent, 400), Address: requestOf(ctx).address})
	return s.session(grant, err)
}

func (s *server) refresh(ctx context.Context, in *struct{ Browser }) (*sessionOut, error) {
	if err := in.sameOrigin(); err != nil {
		return nil, err
	}
	if in.Cookie == "" {
		return nil, cloud.E(cloud.KindUnauthenticated, "session_missing", "there is no session in this browser").WithHint("sign in")
	}
	grant, err := s.app.Refresh(ctx, in.Cookie, clip(in.UserAgent, 400), requestOf(ctx).address)
	return s.session(grant, err)
}

func (s *server) session(grant app.SessionGrant, err error) (*sessionOut, error) {
	if err != nil {
		return nil, err
	}
	return &sessionOut{
		SetCookie: s.cookie(grant.RefreshToken, grant.RefreshExpiresAt),
		Body:      api.Session{AccessToken: grant.AccessToken, TokenType: "Bearer", ExpiresAt: grant.AccessExpiresAt.UTC()},
	}, nil
}

func (s *server) cookie(value string, expires time.Time) http.Cookie {
	return http.Cookie{Name: refreshCookie, Value: value, Path: "/v1/auth", Expires: expires, HttpOnly: true, Secure: s.cfg.TLS, SameSite: http.SameSiteStrictMode}
}

func (s *server) logout(ctx context.Context, in *struct{ Browser }) (*struct {
	SetCookie http.Cookie `header:"Set-Cookie" hidden:"true"`
}, error) {
	if err := in.sameOrigin(); err != nil {
		return nil, err
	}
	if in.Cookie != "" {
		if err := s.app.Logout(ctx, in.Cookie); err != nil {
			return nil, err
		}
	}
	gone := s.cookie("", time.Unix(1, 0))
	gone.MaxAge = -1
	return &struct {
		SetCookie http.Cookie `header:"Set-Cookie" hidden:"true"`
	}{gone}, nil
}

func (s *server) passwordChange(ctx context.Context, in *struct {
	Strict
	Body api.PasswordChange
}) (*none, error) {
	return nil, s.app.PasswordChange(ctx, call(ctx, ""), in.Body.CurrentPassword, in.Body.Password)
}

func (s *server) me(ctx context.Context, _ *struct{ Strict }) (*out[api.Me], error) {
	c := call(ctx, "")
	m, err := s.app.Me(ctx, c)
	return oneOf(m, err, func(m app.Me) api.Me {
		return api.Me{
			User:         api.User{ID: m.User.ID.String(), Email: m.User.Email, Name: m.User.Name, Operator: m.User.Operator},
			Organisation: api.MyOrganisation{ID: idOf(m.OrgID), Name: m.OrgName, Role: string(m.Role)},
			Organisations: each(m.Memberships, func(o app.Membership) api.MyOrganisation {
				return api.MyOrganisation{ID: o.OrgID.String(), Name: o.OrgName, Role: string(o.Role)}
			}),
			Actions: each(m.Actions, func(a authz.Action) string { return string(a) }),
			TokenID: idOf(c.Actor.TokenID), Version: s.cfg.Version, CloudID: s.cfg.CloudID,
		}
	})
}
