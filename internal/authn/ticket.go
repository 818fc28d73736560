package authn

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// TicketFor is how long a ticket is good: long enough to open a socket with.
const TicketFor = 30 * time.Second

const ticketAudience = "tenon-exec"

// Ticket lets its bearer open one terminal. That it is used once is for the
// caller to see to, by its ID.
type Ticket struct {
	ID         string
	Actor      cloud.Actor
	ProjectID  cloud.ProjectID
	InstanceID cloud.InstanceID
}

type ticketClaims struct {
	jwt.RegisteredClaims
	Actor    cloud.Actor      `json:"actor"`
	Project  cloud.ProjectID  `json:"project"`
	Instance cloud.InstanceID `json:"instance"`
}

// TicketIssue signs a ticket.
func (k *Keys) TicketIssue(t Ticket, now time.Time) (string, time.Time, error) {
	key := k.jwt[len(k.jwt)-1]
	until := now.Add(TicketFor)
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, ticketClaims{
		RegisteredClaims: jwt.RegisteredClaims{ID: t.ID, Audience: jwt.ClaimStrings{ticketAudience}, ExpiresAt: jwt.NewNumericDate(until)},
		Actor:            t.Actor, Project: t.ProjectID, Instance: t.InstanceID,
	})
	token.Header["kid"] = key.id
	out, err := token.SignedString(key.private)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign ticket: %w", err)
	}
	return out, until, nil
}

// TicketRead checks a ticket.
func (k *Keys) TicketRead(text string, now time.Time) (Ticket, error) {
	var claims ticketClaims
	if err := k.read(text, &claims, ticketAudience, now); err != nil {
		return Ticket{}, err
	}
	return Ticket{ID: claims.ID, Actor: claims.Actor, ProjectID: claims.Project, InstanceID: claims.Instance}, nil
}
