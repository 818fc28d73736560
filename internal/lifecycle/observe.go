package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// observe works through what nodes have said, page by page.
func (l *Lifecycle) observe(ctx context.Context) error {
	for id, at := range l.progressed {
		if time.Since(at) > time.Minute {
			delete(l.progressed, id)
		}
	}
	var after cloud.InstanceID
	for {
		var page []postgres.Observation
		err := l.cfg.DB.InSystem(ctx, func(tx *postgres.Tx) error {
			var err error
			page, err = postgres.ObservationUnhandled(ctx, tx, after, batchSize)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].InstanceID
		err = postgres.Isolate(page, func(list []postgres.Observation) error { return l.observePage(ctx, list) },
			func(o postgres.Observation, err error) { l.broken(o.InstanceID, err) })
		if err != nil {
			return err
		}
		if len(page) < batchSize {
			return nil
		}
	}
}

func (l *Lifecycle) observePage(ctx context.Context, page []postgres.Observation) error {
	began := time.Now()
	var progressed []cloud.InstanceID
	var changes []change
	err := l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		progressed, changes = nil, nil
		if err := postgres.QuotaLock(ctx, tx, projectsOf(page, ends)); err != nil {
			return err
		}
		standing, now, err := lockAll(ctx, tx, idsOf(page))
		if err != nil {
			return err
		}
		handled := page[:0:0]
		var stray []cloud.InstanceID
		for _, o := range page {
			was, ok := standing[o.InstanceID]
			if !ok {
				continue
			}
			if o.NodeID != was.NodeID {
				stray = append(stray, was.ID) // it came as the placement ended
				continue
			}
			s := decide(was, o, now)
			if s.progress && time.Since(l.progressed[was.ID]) < progressEvery {
				continue // stays unhandled until the next tick
			}
			if s.changed {
				changes = append(changes, change{was, s})
			}
			if s.progress {
				progressed = append(progressed, was.ID)
			}
			if !s.released { // else it is forgotten
				handled = append(handled, o)
			}
		}
		if err := apply(ctx, tx, changes); err != nil {
			return err
		}
		if err := postgres.ObservationForget(ctx, tx, stray); err != nil {
			return err
		}
		return postgres.ObservationHandled(ctx, tx, handled)
	})
	if err != nil {
		return err
	}
	for _, id := range progressed {
		l.progressed[id] = time.Now()
	}
	l.metrics.moved(changes)
	l.metrics.batch.Observe(time.Since(began).Seconds())
	return nil
}

// intend works through what tenants want and nothing has been done about.
func (l *Lifecycle) intend(ctx context.Context) error {
	return l.each(ctx, postgres.InstanceUnsettled, func(_ context.Context, _ *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
		return intend(was, now), nil
	})
}

// each finds instances, locks them and takes a step with each, until none are
// found or none changes.
func (l *Lifecycle) each(ctx context.Context,
	find func(context.Context, postgres.Querier, int) ([]postgres.InstanceRef, error),
	take func(context.Context, *postgres.Tx, postgres.Standing, time.Time) (step, error),
) error {
	for {
		var refs []postgres.InstanceRef
		err := l.cfg.DB.InSystem(ctx, func(tx *postgres.Tx) error {
			var err error
			refs, err = find(ctx, tx, batchSize)
			return err
		})
		if err != nil || len(refs) == 0 {
			return err
		}
		moved := 0
		err = postgres.Isolate(refs, func(list []postgres.InstanceRef) error {
			changes, err := l.eachPage(ctx, list, take)
			moved += len(changes)
			return err
		}, func(r postgres.InstanceRef, err error) { l.broken(r.ID, err) })
		if err != nil || len(refs) < batchSize || moved == 0 {
			return err
		}
	}
}

func (l *Lifecycle) eachPage(ctx context.Context, refs []postgres.InstanceRef,
	take func(context.Context, *postgres.Tx, postgres.Standing, time.Time) (step, error),
) (changes []change, err error) {
	err = l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		changes = nil
		projects, ids := postgres.SplitRefs(refs)
		if err := postgres.QuotaLock(ctx, tx, projects); err != nil {
			return err
		}
		standing, now, err := lockAll(ctx, tx, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			was, ok := standing[id]
			if !ok {
				continue
			}
			s, err := take(ctx, tx, was, now)
			if err != nil {
				return err
			}
			if s.changed {
				changes = append(changes, change{was, s})
			}
		}
		return apply(ctx, tx, changes)
	})
	if err != nil {
		return nil, err
	}
	l.metrics.moved(changes)
	return changes, nil
}

// broken tells of an instance that the database lets no step be taken with.
func (l *Lifecycle) broken(id cloud.InstanceID, err error) {
	l.metrics.broken.Inc()
	l.log.Error("move instance", "instance", id.String(), "error", err)
}

func lockAll(ctx context.Context, tx *postgres.Tx, ids []cloud.InstanceID) (map[cloud.InstanceID]postgres.Standing, time.Time, error) {
	list, err := postgres.StandingLock(ctx, tx, ids)
	if err != nil {
		return nil, time.Time{}, err
	}
	out := make(map[cloud.InstanceID]postgres.Standing, len(list))
	for _, s := range list {
		out[s.ID] = s
	}
	now, err := postgres.Now(ctx, tx)
	return out, now, err
}

func idsOf(page []postgres.Observation) []cloud.InstanceID {
	out := make([]cloud.InstanceID, len(page))
	for i, o := range page {
		out[i] = o.InstanceID
	}
	return out
}

// ends reports observations that may release something, and so need the quota
// rows, which are locked before the instances.
func ends(o postgres.Observation) bool {
	return o.State == nodewire.GuestStopped || o.State == nodewire.GuestFailed || o.State == nodewire.GuestGone
}

func projectsOf(page []postgres.Observation, which func(postgres.Observation) bool) []cloud.ProjectID {
	var out []cloud.ProjectID
	for _, o := range page {
		if which(o) && !slices.Contains(out, o.ProjectID) {
			out = append(out, o.ProjectID)
		}
	}
	return out
}
