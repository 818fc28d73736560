package app

import (
	"context"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// What a ticket opens.
const (
	TicketExec    = "exec"
	TicketConsole = "console"
	TicketScreen  = "screen"
	TicketPort    = "port"
	ticketOpen    = "open" // a web address's first visit; no stream takes it
)

// ticketActions is what its owner must be allowed to do, when it is used.
var ticketActions = map[string]authz.Action{
	TicketExec: authz.InstanceExec, TicketConsole: authz.InstanceConsole, TicketScreen: authz.InstanceScreen, TicketPort: authz.InstancePort,
	ticketOpen: authz.InstanceOpen,
}

// TicketCreate lets a browser, which can't send a header with a WebSocket, open
// one stream: a terminal, a VM's console or screen, or a port.
func (a *App) TicketCreate(ctx context.Context, c Call, project, instance, opens string, port int) (ExecTicket, error) {
	if opens == "" {
		opens = TicketExec
	}
	if err := ticketCheck(opens, port); err != nil {
		return ExecTicket{}, err
	}
	i, err := a.InstanceFor(ctx, c, authz.InstanceExecTicket, project, instance, true)
	if err != nil {
		return ExecTicket{}, err
	}
	if err := MustBeVM(i, opens); err != nil {
		return ExecTicket{}, err
	}
	return a.ticket(c, i, opens, port)
}

func (a *App) ticket(c Call, i cloud.Instance, opens string, port int) (ExecTicket, error) {
	text, until, err := a.keys.TicketIssue(authn.Ticket{ID: uuid.NewString(), Actor: c.Actor, ProjectID: i.ProjectID, InstanceID: i.ID, For: opens, Port: port}, a.now())
	return ExecTicket{Ticket: text, ExpiresAt: until}, err
}

func ticketCheck(opens string, port int) error {
	var wrong []cloud.Field
	if _, ok := ticketActions[opens]; !ok || opens == ticketOpen {
		wrong = append(wrong, cloud.Field{Location: "body.for", Message: "exec, console, screen or port", Value: opens})
	}
	switch {
	case opens == TicketPort && (port < 1 || port > 65535):
		wrong = append(wrong, cloud.Field{Location: "body.port", Message: "1 to 65535: which port the ticket is for", Value: port})
	case opens != TicketPort && port != 0:
		wrong = append(wrong, cloud.Field{Location: "body.port", Message: "goes with for=port only", Value: port})
	}
	if len(wrong) > 0 {
		return cloud.Invalid(wrong...)
	}
	return nil
}

// MustBeVM refuses the serial port and the screen of what has none.
func MustBeVM(i cloud.Instance, opens string) error {
	if i.Kind == cloud.KindVM || opens != TicketConsole && opens != TicketScreen {
		return nil
	}
	return cloud.E(cloud.KindConflict, "not_a_vm", "instance %q is a %s: only a VM has a %s", i.Name, i.Kind, opens).
		WithHint("open a terminal instead").With("kind", string(i.Kind))
}

// TicketUse spends a ticket for one kind of stream: on whichever replica it is
// used, a second use is refused. What its owner may do is looked up again.
func (a *App) TicketUse(ctx context.Context, ticket, opens string) (authn.Ticket, error) {
	t, err := a.keys.TicketRead(ticket, a.now())
	if err != nil {
		return authn.Ticket{}, err
	}
	action, known := ticketActions[opens]
	if !known || t.For != opens {
		return authn.Ticket{}, cloud.E(cloud.KindUnauthenticated, "ticket_other", "the ticket is for something else").
			WithHint("ask for one with for=%s", opens)
	}
	if err := a.StillValid(ctx, t.Actor); err != nil {
		return authn.Ticket{}, err
	}
	c := Call{Actor: t.Actor}
	// A web address tells of a stopped instance by itself.
	i, err := a.InstanceFor(ctx, c, action, t.ProjectID.String(), t.InstanceID.String(), opens != ticketOpen)
	if err != nil {
		return authn.Ticket{}, err
	}
	err = a.db.InAPI(ctx, postgres.ScopeOf(t.Actor), func(tx *postgres.Tx) error {
		err := postgres.IdempotencyAdd(ctx, tx, postgres.Idempotency{Org: t.Actor.OrgID, ActorID: t.Actor.UserID.UUID(), Key: "ticket:" + t.ID,
			Operation: "ticket.use", RequestHash: []byte{}, Response: []byte("{}")})
		if postgres.IdempotencyTaken(err) {
			return cloud.E(cloud.KindUnauthenticated, "ticket_used", "the ticket was used already").WithHint("ask for a new one each time")
		}
		if err != nil {
			return err
		}
		detail := map[string]any{"name": i.Name}
		if t.Port != 0 {
			detail["port"] = t.Port
		}
		return audit(ctx, tx, c, i.OrgID, action, i.ID.String(), detail)
	})
	return t, err
}
