package app

import (
	"context"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	laneBatch  = 64
	laneWithin = 15 * time.Second
)

// lanes gather the admissions of a project that come while one is being
// committed, and commit them together. A project's limits are rows that each
// admission must lock until it is on disk, so one by one a burst would wait for
// as many disk writes as it has members. A lone admission waits for nothing.
type lanes struct {
	mu sync.Mutex
	of map[cloud.ProjectID][]*boarding // present while a goroutine runs the lane
}

type boarding struct {
	admission postgres.Admission
	done      chan error
}

// admit commits an admission, alone or with others.
func (a *App) admit(ctx context.Context, m postgres.Admission) error {
	b := &boarding{admission: m, done: make(chan error, 1)}
	project := m.Instance.ProjectID
	a.lanes.mu.Lock()
	if a.lanes.of == nil {
		a.lanes.of = map[cloud.ProjectID][]*boarding{}
	}
	waiting, runs := a.lanes.of[project]
	a.lanes.of[project] = append(waiting, b)
	a.lanes.mu.Unlock()
	if !runs {
		go a.runLane(context.WithoutCancel(ctx), project)
	}
	// What is on its way is not called back, so its answer is waited for.
	return <-b.done
}

func (a *App) runLane(ctx context.Context, project cloud.ProjectID) {
	for {
		a.lanes.mu.Lock()
		waiting := a.lanes.of[project]
		if len(waiting) == 0 {
			delete(a.lanes.of, project)
			a.lanes.mu.Unlock()
			return
		}
		n := min(len(waiting), laneBatch)
		batch := waiting[:n:n]
		a.lanes.of[project] = waiting[n:]
		a.lanes.mu.Unlock()
		a.commit(ctx, batch)
	}
}

// commit writes a batch in one transaction. If the database refuses it, because
// of one of them, each gets a transaction and an answer of its own.
func (a *App) commit(ctx context.Context, batch []*boarding) {
	ctx, cancel := context.WithTimeout(ctx, laneWithin)
	defer cancel()
	err := a.write(ctx, batch)
	if err == nil || len(batch) == 1 {
		for _, b := range batch {
			b.done <- err
		}
		return
	}
	for _, b := range batch {
		err := a.write(ctx, []*boarding{b})
		if postgres.Constraint(err) == "instance_pkey" {
			err = nil // the batch was kept after all, and its answer was lost
		}
		b.done <- err
	}
}

func (a *App) write(ctx context.Context, batch []*boarding) error {
	list := make([]postgres.Admission, len(batch))
	for i, b := range batch {
		list[i] = b.admission
	}
	return postgres.InstanceAdmit(ctx, a.db, list)
}
