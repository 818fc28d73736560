package authn

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// AccessFor is how long an access token is good.
const AccessFor = 10 * time.Minute

const accessAudience = "tenon-api"

// Access is what an access token says: who, in which session. Roles are looked
// up at each request, since they can change while a token lives.
type Access struct {
	UserID    cloud.UserID
	SessionID cloud.SessionID
	ExpiresAt time.Time
}

type jwtKey struct {
	id      string
	private ed25519.PrivateKey
}

type accessClaims struct {
	jwt.RegisteredClaims
	Session string `json:"sid"`
}

// AccessIssue signs an access token with the newest key.
func (k *Keys) AccessIssue(user cloud.UserID, session cloud.SessionID, now time.Time) (string, time.Time, error) {
	until := now.Add(AccessFor)
	out, err := k.sign(accessClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: user.String(), Audience: jwt.ClaimStrings{accessAudience},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(until),
		},
		Session: session.String(),
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign access token: %w", err)
	}
	return out, until, nil
}

// AccessRead checks an access token.
func (k *Keys) AccessRead(token string, now time.Time) (Access, error) {
	var claims accessClaims
	if err := k.read(token, &claims, accessAudience, now); err != nil {
		return Access{}, err
	}
	var out Access
	if err := out.UserID.UnmarshalText([]byte(claims.Subject)); err != nil {
		return Access{}, cloud.E(cloud.KindUnauthenticated, "token_malformed", "the access token names no user").Wrap(err)
	}
	if err := out.SessionID.UnmarshalText([]byte(claims.Session)); err != nil {
		return Access{}, cloud.E(cloud.KindUnauthenticated, "token_malformed", "the access token names no session").Wrap(err)
	}
	out.ExpiresAt = claims.ExpiresAt.Time
	return out, nil
}

// read checks a token's form, signature, audience and time. Only EdDSA under one
// of our own keys is taken, whatever its header says.
func (k *Keys) read(token string, claims jwt.Claims, audience string, now time.Time) error {
	_, err := jwt.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		for _, key := range k.jwt {
			if t.Header["kid"] == key.id {
				return key.private.Public(), nil
			}
		}
		return nil, errors.New("unknown key")
	}, jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithAudience(audience), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return cloud.E(cloud.KindUnauthenticated, "token_expired", "the access token has expired").
			WithHint("refresh the session, or sign in again").Wrap(err)
	case err != nil:
		return cloud.E(cloud.KindUnauthenticated, "token_malformed", "the access token is malformed or not signed by this cloud").Wrap(err)
	}
	return nil
}
