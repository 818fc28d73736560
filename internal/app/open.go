package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Opening lets a browser into one port of one instance, once, soon.
type Opening struct {
	InstanceID cloud.InstanceID
	Port       int
	Ticket     string
	ExpiresAt  time.Time
}

// Open makes the first visit to a web server inside an instance possible.
func (a *App) Open(ctx context.Context, c Call, project, instance string, port int) (Opening, error) {
	i, err := a.openable(ctx, c, project, instance)
	if err != nil {
		return Opening{}, err
	}
	t, err := a.ticket(c, i, ticketOpen, port)
	return Opening{InstanceID: i.ID, Port: port, Ticket: t.Ticket, ExpiresAt: t.ExpiresAt}, err
}

// openable is InstanceFor without what was deleted, which is still found by its
// id: its address is no other's, and nothing is there.
func (a *App) openable(ctx context.Context, c Call, project, instance string) (cloud.Instance, error) {
	i, err := a.InstanceFor(ctx, c, authz.InstanceOpen, project, instance, false)
	if err == nil && i.State == cloud.StateDeleted {
		return cloud.Instance{}, cloud.NotFound("instance", instance)
	}
	return i, err
}

// Visit is a browser's standing at one port of one instance.
type Visit struct {
	Call     Call
	Instance cloud.Instance
	Port     int
}

// VisitBegin spends the ticket of an opening, and gives the pass with which the
// browser comes back. A ticket for another port or instance opens nothing here.
func (a *App) VisitBegin(ctx context.Context, ticket string, instance cloud.InstanceID, port int) (pass string, until time.Time, err error) {
	t, err := a.keys.TicketRead(ticket, a.now())
	if err != nil {
		return "", time.Time{}, err
	}
	if t.InstanceID != instance || t.Port != port {
		return "", time.Time{}, cloud.NotFound("instance", instance.String())
	}
	if t, err = a.TicketUse(ctx, ticket, ticketOpen); err != nil {
		return "", time.Time{}, err
	}
	return a.keys.PassIssue(authn.Pass{Actor: t.Actor, ProjectID: t.ProjectID, InstanceID: t.InstanceID, Port: t.Port}, a.now())
}

// VisitGoesOn asks whether the bearer of a pass may be at a port now: the
// session, the membership and the permission, as streams do.
func (a *App) VisitGoesOn(ctx context.Context, pass string, instance cloud.InstanceID, port int) (Visit, error) {
	p, err := a.keys.PassRead(pass, a.now())
	if err != nil {
		return Visit{}, err
	}
	if p.InstanceID != instance || p.Port != port {
		return Visit{}, cloud.NotFound("instance", instance.String())
	}
	if err := a.StillValid(ctx, p.Actor); err != nil {
		return Visit{}, err
	}
	c := Call{Actor: p.Actor}
	i, err := a.openable(ctx, c, p.ProjectID.String(), instance.String())
	return Visit{Call: c, Instance: i, Port: port}, err
}
