package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// reasonRow is one entry of an instance's reasons, as the API shows it.
type reasonRow struct {
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
	Message string `json:"message"`
}

func refusedRow(w postgres.Waiting, r placement.Refusal) postgres.Refused {
	rows := make([]reasonRow, len(r.Reasons))
	for i, x := range r.Reasons {
		rows[i] = reasonRow{Reason: string(x.Code), Count: x.Count, Message: x.String()}
	}
	b, err := json.Marshal(rows)
	if err != nil {
		b = []byte("[]") // rows of plain fields can't fail to encode
	}
	verb := "waits: "
	if r.NeverFits {
		verb = "can not fit on any node of its pool: "
	}
	message := verb + r.String()
	if !w.Home.IsZero() {
		message += ". " + homeText(w)
	}
	return postgres.Refused{ID: w.ID, Generation: w.Generation, Reason: string(r.Cause()), Message: message, Reasons: string(b)}
}

// refused tells each member of a gang why all of them wait.
func (g *gang) refused(r placement.Refusal) []postgres.Refused {
	out := make([]postgres.Refused, len(g.members))
	for i, w := range g.members {
		out[i] = refusedRow(w, r)
		if g.size > 1 && !g.job.AcrossNodes {
			out[i].Message = fmt.Sprintf("needs one node for all %d members, ", g.size) + out[i].Message
		}
	}
	return out
}

// homeText says why nothing but one node will do, and how to get at the data
// meanwhile.
func homeText(w postgres.Waiting) string {
	text := fmt.Sprintf("Its data is on node %s, which is %s", w.HomeName, w.HomeState)
	if w.Shape.GPUCount > 0 && w.HomeState == cloud.NodeReady {
		text += "; started without its GPU, it can be reached sooner (start, without_gpu)"
	}
	return text
}

// refuse writes why instances wait: at once for one that has no reason yet, and
// for the others, whose counts change with every placement, once a second.
func (s *Scheduler) refuse(ctx context.Context, waiting map[cloud.InstanceID]postgres.Waiting, list []postgres.Refused) error {
	all := time.Since(s.refreshed) >= refuseRefresh
	if all {
		s.refreshed = time.Now()
	}
	write := list[:0:0]
	for _, r := range list {
		w := waiting[r.ID]
		if w.Reason == "" || all && (w.Reason != r.Reason || w.Message != r.Message) {
			write = append(write, r)
		}
	}
	for len(write) > 0 {
		n := min(500, len(write))
		if err := s.refuseBatch(ctx, write[:n]); err != nil {
			return err
		}
		write = write[n:]
	}
	return nil
}

func (s *Scheduler) refuseBatch(ctx context.Context, list []postgres.Refused) error {
	return s.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		first, projects, err := postgres.QueueRefuse(ctx, tx, list)
		if err != nil {
			return err
		}
		for _, p := range projects {
			tx.Wake(postgres.TopicChange(p))
		}
		if len(first) == 0 {
			return nil
		}
		// One event when it begins to wait; how the reason changes later is on the
		// instance alone.
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		events := make([]cloud.Event, len(first))
		for i := range first {
			events[i] = postgres.InstanceEvent(&first[i], "waiting", first[i].Message, now, map[string]any{"reason": first[i].Reason})
		}
		if err := postgres.StandingSave(ctx, tx, first); err != nil {
			return err
		}
		return postgres.EventsAppend(ctx, tx, events)
	})
}
