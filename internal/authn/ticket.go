package authn

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// TicketFor is how long a ticket is good: long enough to open a socket with.
const TicketFor = 30 * time.Second

const ticketAudience = "tenon-ticket"

// Ticket lets its bearer open one thing of one instance. That it is used once is
// for the caller to see to, by its ID.
type Ticket struct {
	ID         string
	Actor      cloud.Actor
	ProjectID  cloud.ProjectID
	InstanceID cloud.InstanceID
	For        string // exec, console, screen, port; open: a web address's first visit
	Port       int    // with port and open
}

type ticketClaims struct {
	jwt.RegisteredClaims
	Actor    cloud.Actor      `json:"actor"`
	Project  cloud.ProjectID  `json:"project"`
	Instance cloud.InstanceID `json:"instance"`
	For      string           `json:"for"`
	Port     int              `json:"port,omitempty"`
}

// TicketIssue signs a ticket.
func (k *Keys) TicketIssue(t Ticket, now time.Time) (string, time.Time, error) {
	until := now.Add(TicketFor)
	out, err := k.sign(ticketClaims{
		RegisteredClaims: jwt.RegisteredClaims{ID: t.ID, Audience: jwt.ClaimStrings{ticketAudience}, ExpiresAt: jwt.NewNumericDate(until)},
		Actor:            t.Actor, Project: t.ProjectID, Instance: t.InstanceID, For: t.For, Port: t.Port,
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign ticket: %w", err)
	}
	return out, until, nil
}

// TicketRead checks a ticket.
func (k *Keys) TicketRead(text string, now time.Time) (Ticket, error) {
	var c ticketClaims
	if err := k.read(text, &c, ticketAudience, now); err != nil {
		return Ticket{}, err
	}
	return Ticket{ID: c.ID, Actor: c.Actor, ProjectID: c.Project, InstanceID: c.Instance, For: c.For, Port: c.Port}, nil
}

// sign makes a token with the newest key.
func (k *Keys) sign(claims jwt.Claims) (string, error) {
	key := k.jwt[len(k.jwt)-1]
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = key.id
	return token.SignedString(key.private)
}
