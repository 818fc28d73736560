package authn

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// PassFor is how long a browser may come back to a web address without passing
// the console again. Whether its owner still may is asked all the while.
const PassFor = 7 * 24 * time.Hour

const passAudience = "tenon-app"

// Pass is what a browser's cookie on an instance's own host says: who opened
// which port of it. It is good nowhere else.
type Pass struct {
	Actor      cloud.Actor
	ProjectID  cloud.ProjectID
	InstanceID cloud.InstanceID
	Port       int
}

type passClaims struct {
	jwt.RegisteredClaims
	User     cloud.UserID     `json:"user"`
	Session  cloud.SessionID  `json:"session,omitzero"`
	Token    cloud.TokenID    `json:"token,omitzero"`
	Org      cloud.OrgID      `json:"org"`
	Role     cloud.OrgRole    `json:"role"`
	Operator bool             `json:"operator,omitempty"`
	Project  cloud.ProjectID  `json:"project"`
	Instance cloud.InstanceID `json:"instance"`
	Port     int              `json:"port"`
}

// PassIssue signs a pass.
func (k *Keys) PassIssue(p Pass, now time.Time) (string, time.Time, error) {
	until := now.Add(PassFor)
	out, err := k.sign(passClaims{
		RegisteredClaims: jwt.RegisteredClaims{Audience: jwt.ClaimStrings{passAudience}, ExpiresAt: jwt.NewNumericDate(until)},
		User:             p.Actor.UserID, Session: p.Actor.SessionID, Token: p.Actor.TokenID, Org: p.Actor.OrgID, Role: p.Actor.Role, Operator: p.Actor.Operator,
		Project: p.ProjectID, Instance: p.InstanceID, Port: p.Port,
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign pass: %w", err)
	}
	return out, until, nil
}

// PassRead checks a pass.
func (k *Keys) PassRead(text string, now time.Time) (Pass, error) {
	var c passClaims
	if err := k.read(text, &c, passAudience, now); err != nil {
		return Pass{}, err
	}
	who := cloud.Actor{UserID: c.User, SessionID: c.Session, TokenID: c.Token, OrgID: c.Org, Role: c.Role, Operator: c.Operator}
	return Pass{Actor: who, ProjectID: c.Project, InstanceID: c.Instance, Port: c.Port}, nil
}
