package lifecycle_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Random creates, stops, starts, deletes and ends, while two of every loop run
// and are killed at random moments of their transactions. At every pause, and
// at the end, the world is whole.
func TestStorm(t *testing.T) {
	t.Parallel()
	const least, most, enough = 3, 10, 100 // rounds; instances
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := looptest.New(t)
	machines := []*looptest.Machine{
		looptest.NewMachine(w.Node(t, 12, 2048, "h100-80gb", cloud.ModeMIG, 2)),
		looptest.NewMachine(w.Node(t, 12, 2048, "h100-80gb", cloud.ModeMIG, 1)),
		looptest.NewMachine(w.Node(t, 12, 2048, "h100-80gb", cloud.ModeWhole, 2)),
	}
	book := &instances{}
	for round := range most {
		if round >= least && len(book.list()) >= enough {
			break
		}
		storm(t, w, machines, book, seed+uint64(round))
		w.Check(t)
		checkHeld(t, w, machines)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	// Calm: everything is deleted and every book closes; also what was created by
	// a call that was killed before it had its answer.
	for _, id := range looptest.One[[]cloud.InstanceID](t, w, `SELECT array_agg(id) FROM instance`) {
		if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
			t.Fatal(err)
		}
	}
	l := w.Loops()
	defer func() {
		if t.Failed() {
			t.Log(looptest.One[string](t, w, `SELECT COALESCE(string_agg(format('%s wanted %s node %s epoch %s metered %s of %s, deadline %s, heard %s', i.state, i.desired_state,
				i.node_id, i.epoch, i.metered_seq, i.event_seq, i.deadline_at, to_jsonb(o)), E'\n'), 'nothing') FROM instance i LEFT JOIN observation o ON o.instance_id = i.id
				WHERE i.state <> 'deleted' OR metered_seq < event_seq`))
		}
	}()
	l.Until(t, "everything is deleted and metered", func() bool {
		return looptest.One[int](t, w, `SELECT (SELECT count(*) FROM instance WHERE state <> 'deleted' OR metered_seq < event_seq) + (SELECT count(*) FROM volume WHERE state <> 'deleted')`) == 0
	}, machines...)
	l.Turn(t)
	for _, m := range machines {
		for id, has := range m.Volumes {
			if has {
				t.Errorf("a node keeps volume %s of nobody", id)
			}
		}
	}
	w.Check(t)
	checkBooks(t, w)
	if got := looptest.One[string](t, w, `SELECT format('%s %s %s %s', (SELECT count(*) FROM gpu_claim), (SELECT sum(used) FROM project_quota),
		(SELECT count(*) FROM segment WHERE ended_at IS NULL) + (SELECT count(*) FROM volume_segment WHERE ended_at IS NULL), (SELECT count(*) FROM observation))`); got != "0 0 0 0" {
		t.Errorf("left over: %s claims, quota, open segments, observations", got)
	}
	deadlocks := looptest.One[int](t, w, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	t.Log(looptest.One[string](t, w, `SELECT format('%s instances, %s placements, %s events, %s segments, %s holds', count(*), sum(epoch), sum(event_seq), (SELECT count(*) FROM segment), (SELECT count(*) FROM event WHERE data->>'held' = 'true' AND verb = 'stopped')) FROM instance`),
		deadlocks, "deadlocks")
	if deadlocks != 0 {
		t.Errorf("%d deadlocks: the order of locks is broken somewhere", deadlocks)
	}
}

// instances is what the storm has made, shared by its hands.
type instances struct {
	mu  sync.Mutex
	ids []cloud.InstanceID
}

func (b *instances) add(id cloud.InstanceID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ids = append(b.ids, id)
}

func (b *instances) list() []cloud.InstanceID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ids)
}

func storm(t *testing.T, w *looptest.World, machines []*looptest.Machine, book *instances, seed uint64) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer stop()
	var hands sync.WaitGroup
	hand := func(n uint64, act func(ctx context.Context, r *rand.Rand) error) {
		hands.Go(func() {
			r := rand.New(rand.NewPCG(seed, n))
			for ctx.Err() == nil {
				if err := act(ctx, r); err != nil && !interrupted(err) {
					t.Error(err)
					return
				}
				select { // the others want their turn
				case <-ctx.Done():
				case <-time.After(time.Duration(1+r.IntN(4)) * time.Millisecond):
				}
			}
		})
	}
	// Each step is killed after a random while, somewhere between its begin and
	// its commit, or just after.
	killed := func(step func(context.Context) error) func(context.Context, *rand.Rand) error {
		return func(ctx context.Context, r *rand.Rand) error {
			if r.IntN(2) > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(25_000))*time.Microsecond)
				defer cancel()
			}
			return step(ctx)
		}
	}
	for n := range uint64(2) {
		l := w.Loops()
		hand(10+n, killed(l.Scheduler.Tick))
		hand(20+n, killed(l.Lifecycle.Step))
		hand(30+n, killed(l.Metering.Tick))
	}
	for n, m := range machines {
		hand(40+uint64(n), func(ctx context.Context, r *rand.Rand) error {
			for _, g := range m.Guests {
				if r.IntN(30) == 0 && g.State == nodewire.GuestRunning {
					g.Boots = true
					continue
				}
				if r.IntN(20) == 0 && g.State == nodewire.GuestRunning {
					g.Ends, g.Code = true, r.IntN(2)
					g.Off = r.IntN(2) > 0
				}
			}
			return m.Act(ctx)
		})
	}
	for n := range uint64(2) {
		hand(50+n, func(ctx context.Context, r *rand.Rand) error {
			shapes := []cloud.Shape{looptest.Slices(1, "1g"), looptest.Slices(2, "2g"), looptest.Slices(1, "3g"), looptest.Slices(1, "1g+me"), looptest.Whole(1), looptest.Whole(2)}
			shape, kind, onStop := shapes[r.IntN(len(shapes))], cloud.KindContainer, cloud.StopReleases
			switch {
			case shape.GPUMode == cloud.ModeWhole && r.IntN(2) > 0:
				kind = cloud.KindVM
				if r.IntN(2) > 0 {
					onStop = cloud.StopHolds
				}
			case r.IntN(3) == 0:
				kind = cloud.KindNotebook
			}
			id, err := w.CreateAs(ctx, kind, onStop, shape)
			if err == nil {
				book.add(id)
			}
			return err
		})
	}
	hand(60, func(ctx context.Context, r *rand.Rand) error {
		ids := book.list()
		if len(ids) == 0 {
			return nil
		}
		id := ids[r.IntN(len(ids))]
		var err error
		switch r.IntN(4) {
		case 0:
			err = w.Want(ctx, id, cloud.DesiredStopped)
		case 1:
			err = w.Want(ctx, id, cloud.DesiredDeleted)
		default:
			_, err = w.Start(ctx, id)
		}
		return err
	})
	hands.Wait()
}

// interrupted reports that the kill itself is what went wrong.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "57014") || strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "timeout")
}

// checkHeld asserts that whatever runs on a machine holds its slots: nothing is
// freed under a guest.
func checkHeld(t *testing.T, w *looptest.World, machines []*looptest.Machine) {
	t.Helper()
	for _, m := range machines {
		for id, g := range m.Guests {
			if g.State != nodewire.GuestRunning {
				continue
			}
			n := looptest.One[int](t, w, `SELECT count(*) FROM gpu_claim c JOIN instance i ON i.id = c.instance_id
				WHERE i.id = $1 AND i.node_id = $2 AND c.epoch = $3`, id, m.ID, g.Epoch)
			if n == 0 {
				t.Errorf("a guest of epoch %d runs and holds nothing", g.Epoch)
			}
		}
	}
}

// checkBooks asserts that every running second is in exactly one segment, by
// replaying the events.
func checkBooks(t *testing.T, w *looptest.World) {
	t.Helper()
	type stretch struct {
		Instance cloud.InstanceID
		From, To time.Time
	}
	read := func(sql string) []stretch {
		t.Helper()
		rows, err := w.Owner.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stretch])
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	ran := read(`SELECT a.resource_id, a.at, GREATEST(a.at, b.at) FROM event a JOIN event b ON b.resource_id = a.resource_id AND b.seq = a.seq + 1
		WHERE a.data->>'state' = 'running' OR a.data->>'held' = 'true' ORDER BY 1, 2, 3`)
	charged := read(`SELECT instance_id, started_at, ended_at FROM segment ORDER BY 1, 2, 3`)
	if len(ran) != len(charged) {
		t.Errorf("%d runs, %d segments", len(ran), len(charged))
		return
	}
	for i := range ran {
		if ran[i].Instance != charged[i].Instance || !ran[i].From.Equal(charged[i].From) || !ran[i].To.Equal(charged[i].To) {
			t.Errorf("ran %v, charged %v", ran[i], charged[i])
		}
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM usage_correction`); n != 0 {
		t.Errorf("%d corrections where nothing came late", n)
	}
}
