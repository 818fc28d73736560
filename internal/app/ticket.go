package app

import (
	"context"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// ExecTicketCreate lets a browser, which can't send a header with a WebSocket,
// open one terminal.
func (a *App) ExecTicketCreate(ctx context.Context, c Call, project, instance string) (ExecTicket, error) {
	i, err := a.InstanceFor(ctx, c, authz.InstanceExecTicket, project, instance, true)
	if err != nil {
		return ExecTicket{}, err
	}
	text, until, err := a.keys.TicketIssue(authn.Ticket{ID: uuid.NewString(), Actor: c.Actor, ProjectID: i.ProjectID, InstanceID: i.ID}, a.now())
	return ExecTicket{Ticket: text, ExpiresAt: until}, err
}

// ExecTicketUse spends a ticket: on whichever replica it is used, a second use
// is refused. What its owner may do is looked up again.
func (a *App) ExecTicketUse(ctx context.Context, ticket string) (cloud.Actor, cloud.Instance, error) {
	t, err := a.keys.TicketRead(ticket, a.now())
	if err != nil {
		return cloud.Actor{}, cloud.Instance{}, err
	}
	if err := a.StillValid(ctx, t.Actor); err != nil {
		return cloud.Actor{}, cloud.Instance{}, err
	}
	c := Call{Actor: t.Actor}
	i, err := a.InstanceFor(ctx, c, authz.InstanceExec, t.ProjectID.String(), t.InstanceID.String(), true)
	if err != nil {
		return cloud.Actor{}, cloud.Instance{}, err
	}
	err = a.db.InAPI(ctx, postgres.ScopeOf(t.Actor), func(tx *postgres.Tx) error {
		err := postgres.IdempotencyAdd(ctx, tx, postgres.Idempotency{Org: t.Actor.OrgID, ActorID: t.Actor.UserID.UUID(), Key: "exec-ticket:" + t.ID,
			Operation: "exec_ticket.use", RequestHash: []byte{}, Response: []byte("{}")})
		if postgres.IdempotencyTaken(err) {
			return cloud.E(cloud.KindUnauthenticated, "ticket_used", "the ticket was used already").WithHint("ask for a new one for each terminal")
		}
		if err != nil {
			return err
		}
		return audit(ctx, tx, c, i.OrgID, authz.InstanceExec, i.ID.String(), map[string]any{"name": i.Name})
	})
	return t.Actor, i, err
}
