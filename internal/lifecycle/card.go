package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// incidentsKept is how long a fault of a card is remembered.
const incidentsKept = 180 * 24 * time.Hour

// staysKept is how long it is remembered who held a card, once that has ended.
const staysKept = 2 * 365 * 24 * time.Hour

// incidents tells instances of faults of what they hold: of one that their own
// program made, and of a card that is out.
func (l *Lifecycle) incidents(ctx context.Context) error {
	return l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		list, err := postgres.IncidentsUntold(ctx, tx, batchSize)
		if err != nil || len(list) == 0 {
			return err
		}
		var ids []cloud.InstanceID
		for _, x := range list {
			if !x.InstanceID.IsZero() {
				ids = append(ids, x.InstanceID)
			}
		}
		standing, now, err := lockAll(ctx, tx, ids)
		if err != nil {
			return err
		}
		told := map[[2]string]bool{}
		var changes []change
		at := map[cloud.InstanceID]int{}
		for _, x := range list {
			key := [2]string{x.NodeID.String(), x.IncidentID}
			first, known := told[key]
			if !known {
				if first, err = postgres.IncidentTold(ctx, tx, x.NodeID, x.IncidentID); err != nil {
					return err
				}
				told[key] = first
			}
			was, ok := standing[x.InstanceID]
			if !first || !ok || was.State == cloud.StateDeleted {
				continue
			}
			i, has := at[was.ID]
			if !has {
				i, at[was.ID] = len(changes), len(changes)
				changes = append(changes, change{was, step{inst: was, changed: true}})
			}
			changes[i].fault(x, now)
		}
		return apply(ctx, tx, changes)
	})
}

// fault notes on an instance what went wrong with its GPU.
func (s *step) fault(x postgres.Untold, now time.Time) {
	in := &s.inst
	data := map[string]any{"incident": x.IncidentID, "kind": x.Kind, "action": x.Action}
	if x.XID > 0 {
		data["xid"] = x.XID
	}
	message := faultText(x)
	verb := "gpu_fault"
	if x.Action == cloud.IncidentOut && in.State == cloud.StateRunning && in.Reason != postgres.ReasonNodeLost {
		verb = "degraded"
		in.Reason, in.Message = postgres.ReasonDegraded, message
	}
	s.events = append(s.events, postgres.InstanceEvent(in, verb, message, now, data))
}

// faultText says to a tenant what happened, without the host's own words.
func faultText(x postgres.Untold) string {
	what := map[string]string{
		"fell_off_bus": "a GPU of it fell off its bus", "row_remap_failure": "the memory of a GPU of it failed",
		"row_remap_pending": "the memory of a GPU of it had a fault", "missing_slice": "a slice of it is missing",
	}[x.Kind]
	if x.XID > 0 {
		what = fmt.Sprintf("a GPU of it reported XID %d", x.XID)
	}
	if what == "" {
		what = "a GPU of it had a fault"
	}
	switch x.Action {
	case cloud.IncidentOut:
		return what + "; the GPU is out of service, and what uses it fails until the instance is started again"
	case cloud.IncidentNeedsReset:
		return what + "; the GPU is reset when the instance gives it back"
	}
	return what + ": its own program did that, and the GPU stays in service"
}

// cardAlarms is what about one card needs a person. They are over once the card is
// ready again.
func cardAlarms(c postgres.CardCondition) (out []cloud.Alarm) {
	raise := func(what, severity, format string, args ...any) {
		out = append(out, cloud.Alarm{Key: fmt.Sprintf("gpu:%s:%s", c.ID, what), Severity: severity, Subject: c.ID.String(), Message: fmt.Sprintf(format, args...)})
	}
	name := fmt.Sprintf("%s %s of node %s", gpu.DisplayName(c.Model, gpu.Whole), c.Address, c.Node)
	why := ""
	if c.Reason != "" {
		why = ": " + c.Reason
	}
	switch c.State {
	case cloud.GPUNeedsReset:
		raise("needs_reset", "warning", "%s is reset once nothing of it is held, and takes nothing new before%s", name, why)
	case cloud.GPUQuarantined:
		raise("quarantined", "critical", "%s is quarantined%s; look at it, and recover it when it is well", name, why)
	case cloud.GPUUnhealthy:
		raise("unhealthy", "critical", "%s is out of service%s; look at it, and recover it when it is well", name, why)
	case cloud.GPUMissing:
		held := "nothing of it is held"
		if c.Held {
			held = "what was held of it stays held"
		}
		raise("missing", "critical", "%s is gone%s; %s", name, why, held)
	}
	if c.Missing > 0 {
		raise("slices", "warning", "%s lacks %d of the slices of its layout; the others are in service", name, c.Missing)
	}
	return out
}
