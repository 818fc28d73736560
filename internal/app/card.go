package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	cardsMaximum     = 64  // of one request
	incidentsMaximum = 200 // of one card that are shown
)

// CardInput is what a card is to be. What is left out stays as it is wished.
type CardInput struct {
	Mode     *cloud.GPUMode
	Layout   *[]LayoutEntry // empty: slices are made as they are placed
	Shares   *int
	VGPUType *string
	DryRun   bool   // say what would be, and change nothing
	Revision *int64 // that its wish must still have; nil: any, unless a change is under way
}

// LayoutEntry is slices of a profile, spelled in any way that is known for the
// card: so many anywhere, or one at an exact place.
type LayoutEntry struct {
	Profile   string
	Count     *int // nil: 1
	SlotStart *int // nil: anywhere
}

// NamedCardInput is CardInput for one of several.
type NamedCardInput struct {
	GPU string // id, UUID or PCI address
	CardInput
}

// CardResult is what became of one of several.
type CardResult struct {
	GPU  string
	Card cloud.GPU
	Err  error
}

// CardSet says what a card is to be. It is told to its node, which makes it so
// and reports what it reads back; until then the card takes nothing new.
func (a *App) CardSet(ctx context.Context, c Call, ref string, in CardInput) (out cloud.GPU, err error) {
	err = a.inPlatform(ctx, c, authz.GPUUpdate, func(tx *postgres.Tx) error {
		g, err := postgres.GPUGet(ctx, tx, postgres.RefOf(cloud.GPUID{}, ref))
		if err != nil {
			return notFound(err, "GPU", ref)
		}
		out, err = cardSet(ctx, tx, c, g, in, "body.", authz.GPUUpdate)
		return err
	})
	return out, err
}

// CardsSet does so for several cards of a node, each by itself: what one can't be
// keeps nothing from the others.
func (a *App) CardsSet(ctx context.Context, c Call, node string, in []NamedCardInput, dryRun bool) ([]CardResult, error) {
	if err := may(c, authz.NodeGPUsUpdate, c.Actor.OrgID); err != nil {
		return nil, err
	}
	var cards []cloud.GPU
	err := a.inPlatform(ctx, c, authz.NodeGPUsUpdate, func(tx *postgres.Tx) error {
		n, err := nodeGet(ctx, tx, node)
		cards = n.GPUs
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(in) == 0 || len(in) > cardsMaximum {
		return nil, cloud.Invalid(cloud.Field{Location: "body.gpus", Message: fmt.Sprintf("1 to %d", cardsMaximum), Value: len(in)})
	}
	found := make([]*cloud.GPU, len(in))
	var fields []cloud.Field
	for i, x := range in {
		at := slices.IndexFunc(cards, func(g cloud.GPU) bool { return named(g, x.GPU) })
		if at < 0 {
			continue
		}
		if slices.Contains(found[:i], &cards[at]) {
			fields = append(fields, cloud.Field{Location: fmt.Sprintf("body.gpus[%d].gpu", i), Message: "it is in the list already", Value: x.GPU})
		}
		found[i] = &cards[at]
	}
	if len(fields) > 0 {
		return nil, cloud.Invalid(fields...)
	}
	out := make([]CardResult, len(in))
	for i, x := range in {
		x.DryRun = dryRun
		out[i].GPU = x.GPU
		if found[i] == nil {
			out[i].Err = cloud.NotFound("GPU", x.GPU)
			continue
		}
		err := a.inPlatform(ctx, c, authz.NodeGPUsUpdate, func(tx *postgres.Tx) (err error) {
			out[i].Card, err = cardSet(ctx, tx, c, *found[i], x.CardInput, fmt.Sprintf("body.gpus[%d].", i), authz.NodeGPUsUpdate)
			return err
		})
		var told *cloud.Error
		if err != nil && !errors.As(err, &told) {
			return nil, err // the control plane's own trouble is no card's
		}
		out[i].Err = err
	}
	return out, nil
}

// named reports whether a card is meant.
func named(g cloud.GPU, ref string) bool {
	if g.ID.String() == ref || g.UUID == ref {
		return true
	}
	at, err := cloud.ParsePCIAddress(ref)
	return err == nil && at.String() == g.PCIAddress
}

// cardSet is for one card. Its row is locked before anything is concluded, as a
// placement locks it before it claims.
func cardSet(ctx context.Context, tx *postgres.Tx, c Call, g cloud.GPU, in CardInput, at string, action authz.Action) (cloud.GPU, error) {
	if err := postgres.GPULock(ctx, tx, g.NodeID, g.ID); err != nil {
		return g, err
	}
	g, err := postgres.GPUGet(ctx, tx, postgres.RefTo(g.ID))
	if err != nil {
		return g, notFound(err, "GPU", g.ID.String())
	}
	want, err := wishFor(g, in, at)
	if err != nil {
		return g, err
	}
	if sameWish(g, want) {
		return g, nil
	}
	if err := cardMoved(g, in.Revision); err != nil {
		return g, err
	}
	if len(g.Claims) > 0 {
		return g, cardHeld(g, "its mode and layout stay as they are until nothing of it is held")
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return g, err
	}
	g.Wish, g.WishedAt, g.Changing = want, &now, true
	if in.DryRun {
		return g, nil
	}
	if err := postgres.CardWishPut(ctx, tx, g, c.Actor.UserID, now); err != nil {
		return g, wishRefused(g, err)
	}
	tx.Wake(postgres.TopicNode(g.NodeID))
	tx.Wake(postgres.TopicSchedule)
	if err := audit(ctx, tx, c, cloud.OrgID{}, action, g.ID.String(), map[string]any{
		"node": g.NodeName, "address": g.PCIAddress, "mode": want.Mode, "layout": want.Layout, "shares": want.Shares, "vgpu_type": want.VGPUType,
	}); err != nil {
		return g, err
	}
	out, err := postgres.GPUGet(ctx, tx, postgres.RefTo(g.ID))
	return out, err
}

// cardHeld refuses what needs an idle card, and names who is in the way.
func cardHeld(g cloud.GPU, why string) error {
	type holder struct {
		ID           string `json:"id"`
		Name         string `json:"name"`
		Organisation string `json:"organisation"`
	}
	var list []holder
	for _, k := range g.Claims {
		h := holder{k.InstanceID.String(), k.InstanceName, k.OrgName}
		if !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	names := make([]string, 0, 4)
	for i, h := range list {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (%s)", h.Name, h.Organisation))
	}
	return cloud.E(cloud.KindConflict, "gpu_in_use", "GPU %s on node %s is in use by %d: %s; %s", g.PCIAddress, g.NodeName, len(list), strings.Join(names, ", "), why).
		WithHint("drain the node and wait for them to end, or ask their owners to stop them").With("instances", list)
}

// wishRefused tells what the database kept from happening in a race.
func wishRefused(g cloud.GPU, err error) error {
	if postgres.Constraint(err) == "gpu_wish_held" {
		return cardHeld(g, "it was taken in this moment")
	}
	return err
}

// CardRecover has a card's node check it, and offer it again if it passes.
func (a *App) CardRecover(ctx context.Context, c Call, ref string) (cloud.GPU, error) {
	if err := may(c, authz.GPURecover, c.Actor.OrgID); err != nil {
		return cloud.GPU{}, err
	}
	return once(ctx, a, c, "gpu.recover", ref, func(keep func(*postgres.Tx, cloud.GPU) error) (out cloud.GPU, err error) {
		err = a.inPlatform(ctx, c, authz.GPURecover, func(tx *postgres.Tx) error {
			g, err := postgres.GPUGet(ctx, tx, postgres.RefOf(cloud.GPUID{}, ref))
			if err != nil {
				return notFound(err, "GPU", ref)
			}
			if err := postgres.GPULock(ctx, tx, g.NodeID, g.ID); err != nil {
				return err
			}
			if g, err = postgres.GPUGet(ctx, tx, postgres.RefTo(g.ID)); err != nil {
				return notFound(err, "GPU", ref)
			}
			switch g.State {
			case cloud.GPUQuarantined, cloud.GPUUnhealthy, cloud.GPUNeedsReset, cloud.GPUMissing:
			default:
				return cloud.E(cloud.KindConflict, "gpu_not_out", "GPU %s on node %s is %s: there is nothing to recover it from", g.PCIAddress, g.NodeName, g.State).
					WithHint("only a card that is quarantined, unhealthy, missing or waits for a reset is checked again")
			}
			if len(g.Claims) > 0 {
				return cardHeld(g, "it can be checked when nothing of it is held")
			}
			if g.Recover, err = postgres.CardRecover(ctx, tx, g); err != nil {
				return err
			}
			tx.Wake(postgres.TopicNode(g.NodeID))
			if err := audit(ctx, tx, c, cloud.OrgID{}, authz.GPURecover, g.ID.String(), map[string]any{"node": g.NodeName, "address": g.PCIAddress, "state": g.State, "reason": g.Reason}); err != nil {
				return err
			}
			out = g
			return keep(tx, g)
		})
		return out, err
	})
}

// IncidentList lists what went wrong with a card, newest first.
func (a *App) IncidentList(ctx context.Context, c Call, ref string) (out []cloud.Incident, err error) {
	err = a.inPlatform(ctx, c, authz.GPUIncidents, func(tx *postgres.Tx) error {
		g, err := postgres.GPUGet(ctx, tx, postgres.RefOf(cloud.GPUID{}, ref))
		if err != nil {
			return notFound(err, "GPU", ref)
		}
		out, err = postgres.IncidentList(ctx, tx, g.ID, incidentsMaximum)
		return err
	})
	return out, err
}
