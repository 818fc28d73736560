package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// defaultGrace is for guests whose assignment is no longer there to say.
const (
	defaultGrace = 5 * time.Second
	deleteGrace  = 5 * time.Second
)

// errSuperseded: the record or the assignment changed under the step.
var errSuperseded = errors.New("superseded by a newer assignment")

// make prepares, gets the devices and starts; each part leaves alone what is
// there already.
func (w *worker) make(ctx context.Context, v view) error {
	d := w.a.driver(v.want.Kind)
	if d == nil {
		return &hypervisor.Failure{Reason: nodewire.ReasonStart, Final: true, Message: "this node can't run instances of kind " + v.want.Kind}
	}
	// A step that shows no sign of life for long is broken off and tried again.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dog := time.AfterFunc(w.a.t.StepTimeout, func() { cancel(context.DeadlineExceeded) })
	defer dog.Stop()

	began := time.Now()
	spec := hypervisor.Spec{Instance: *v.want, Secrets: w.a.secrets(v.want)}
	var err error
	if spec.Folders, err = w.folders(ctx, v.want); err != nil {
		return err
	}
	err = d.Prepare(ctx, spec, func(step, message string, percent int) {
		dog.Reset(w.a.t.StepTimeout)
		w.progress(step, message, percent)
	})
	if err != nil {
		var f *hypervisor.Failure
		if errors.As(err, &f) && f.Final && v.want.Kind == "vm" {
			w.dropFresh(ctx, v.want)
		}
		return asFailure(ctx, err, nodewire.ReasonImagePull, "the image could not be prepared")
	}
	if err := w.keepVolumes(v.want); err != nil {
		return err
	}
	w.change(func(p *published) { p.state, p.progress, p.message, p.reason = nodewire.GuestStarting, nil, "", "" })
	if len(v.want.Peers) > 1 {
		dog.Stop() // the others' preparations have limits of their own
		if err := w.awaitPeers(ctx, d); err != nil {
			return err
		}
	}
	dog.Reset(w.a.t.StepTimeout)
	prepared := time.Now()
	if err := w.noteStart(v); err != nil {
		return err
	}
	if len(v.want.Devices) > 0 {
		dog.Stop() // the wait for the cards has a limit of its own
		if err := w.awaitCards(ctx); err != nil {
			return err
		}
		dog.Reset(w.a.t.StepTimeout)
		if spec.Grants, err = w.devices(ctx, v.want); err != nil {
			return err
		}
	}
	granted := time.Now()
	dog.Reset(w.a.t.StepTimeout + device.Pinning(spec.Grants, spec.MemoryMiB))
	if w.a.contact.fenced(v.want) {
		return errSuperseded // the time ran out while it was made
	}
	g, err := d.Start(ctx, spec)
	if err != nil {
		return asFailure(ctx, err, nodewire.ReasonStart, "the instance could not be started")
	}
	if g.State == hypervisor.Running {
		if err := w.watch(view{want: v.want, rec: v.rec, guest: &g}); err != nil {
			return err
		}
		w.log.Info("instance runs", "epoch", v.want.Epoch, "prepare_ms", prepared.Sub(began).Milliseconds(),
			"devices_ms", granted.Sub(prepared).Milliseconds(), "start_ms", time.Since(granted).Milliseconds())
	}
	return nil
}

// devices makes the assigned ones exist. No guest of an earlier epoch is there
// (decide clears it first), so what such an epoch still holds is nobody's.
func (w *worker) devices(ctx context.Context, want *nodewire.Instance) ([]device.Grant, error) {
	if w.a.cfg.Board == nil {
		return nil, &hypervisor.Failure{Reason: nodewire.ReasonDevice, Final: true, Message: "this node has no GPUs"}
	}
	if err := w.a.cfg.Board.Release(ctx, w.id, want.Epoch-1); err != nil {
		return nil, asFailure(ctx, err, nodewire.ReasonDevice, "the GPU could not be prepared")
	}
	grants, err := w.a.cfg.Board.Prepare(ctx, device.Request{InstanceID: w.id, Epoch: want.Epoch, Kind: want.Kind, Devices: want.Devices})
	if err != nil {
		message := "the GPU could not be prepared"
		var gone *device.GoneError
		if errors.As(err, &gone) {
			message += ": " + gone.Error()
		}
		f := asFailure(ctx, err, nodewire.ReasonDevice, message)
		var fail *hypervisor.Failure
		if errors.As(f, &fail) && errors.Is(err, device.ErrImpossible) {
			fail.Final = true
		}
		return nil, f
	}
	return grants, nil
}

// asFailure gives an error a reason, unless it has one.
func asFailure(ctx context.Context, err error, reason, message string) error {
	var f *hypervisor.Failure
	if errors.As(err, &f) {
		return err
	}
	if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // our own cause, never wrapped
		message += ": no sign of life for too long"
	}
	return &hypervisor.Failure{Reason: reason, Message: message, Err: err}
}

// progress publishes how far a slow step is.
func (w *worker) progress(step, message string, percent int) {
	w.mu.Lock()
	switch {
	case percent > w.fails.percent: // headway: failures before this don't count
		w.fails = failures{percent: percent, since: time.Now()}
	case percent == w.fails.percent && message != w.pub.message:
		w.fails.since = time.Now()
	}
	w.mu.Unlock()
	w.change(func(p *published) {
		p.state, p.message, p.progress, p.reason = nodewire.GuestStarting, message, nil, ""
		if step == "image" {
			p.state = nodewire.GuestPulling
		}
		if percent >= 0 {
			p.progress = &percent
		}
	})
}

// watch records that a guest was started and then publishes it: what was told to
// run is known to have run, also after the next boot.
func (w *worker) watch(v view) error {
	err := w.noteRun(v)
	if err == nil {
		w.showRunning(v.guest, v.want)
	}
	return err
}

// noteStart records that a guest is about to be started, before anything of that
// is done.
func (w *worker) noteStart(v view) error {
	if v.rec.StartBoot == w.a.cfg.Host.BootID {
		return nil
	}
	return w.a.ledger.update(func(s *state) error {
		rec, ok := s.Records[w.id]
		if !ok || rec.Epoch != v.rec.Epoch {
			return errSuperseded
		}
		rec.StartBoot = w.a.cfg.Host.BootID
		s.Records[w.id] = rec
		return nil
	})
}

func (w *worker) noteRun(v view) error {
	if v.rec.RunGeneration == v.guest.Generation && v.rec.RunBoot == w.a.cfg.Host.BootID && !v.rec.Halted {
		return nil
	}
	return w.a.ledger.update(func(s *state) error {
		rec, ok := s.Records[w.id]
		if !ok || rec.Epoch != v.rec.Epoch {
			return nil // the next look sees to it
		}
		rec.RunGeneration, rec.RunBoot, rec.Halted = v.guest.Generation, w.a.cfg.Host.BootID, false
		s.Records[w.id] = rec
		return nil
	})
}

// restart ends this run of the same epoch; the devices stay where they are.
func (w *worker) restart(ctx context.Context, v view) error {
	d := w.a.driver(v.rec.Kind)
	if err := w.stop(ctx, d, v, grace(v.want)); err != nil {
		return err
	}
	if err := d.Remove(ctx, w.id, true); err != nil {
		return fmt.Errorf("remove guest: %w", err)
	}
	return nil
}

// clear gives back what earlier epochs hold.
func (w *worker) clear(ctx context.Context, v view) error {
	// The present epoch starts only after this, so what it holds is a remnant too.
	epochs := append([]int64{v.rec.Epoch}, v.rec.Earlier...)
	if v.guest != nil {
		epochs = append(epochs, v.guest.Epoch)
	}
	if err := w.giveBack(ctx, v, epochs, true, grace(v.want)); err != nil {
		return err
	}
	return w.a.ledger.update(func(s *state) error {
		if rec, ok := s.Records[w.id]; ok && rec.Epoch == v.rec.Epoch {
			rec.Earlier = nil
			s.Records[w.id] = rec
		}
		return nil
	})
}

// end writes down how the run ended, before anything of it is given back.
func (w *worker) end(ctx context.Context, v view, e ending) error {
	if v.guest != nil && v.guest.State == hypervisor.Exited {
		e.LastLines = w.lastLines(ctx, v.rec.Kind)
	}
	return w.writeEnd(v.want, e)
}

func (w *worker) writeEnd(want *nodewire.Instance, e ending) error {
	if want == nil {
		return errSuperseded
	}
	if now := time.Now(); e.At.IsZero() || e.At.After(now) {
		e.At = now
	}
	return w.a.ledger.update(func(s *state) error {
		rec, ok := s.Records[w.id]
		if !ok || rec.Epoch != want.Epoch {
			return errSuperseded
		}
		if rec.End != nil && e.ExitCode == nil { // gone after stopped or failed
			e.ExitCode = rec.End.ExitCode
			e.RanForSeconds = max(e.RanForSeconds, rec.End.RanForSeconds)
		}
		rec.End = &e
		s.Records[w.id] = rec
		return nil
	})
}

// finish gives everything back, proves it and reports the end.
func (w *worker) finish(ctx context.Context, v view) error {
	e := *v.rec.End
	wait := grace(v.want)
	if e.Reason == nodewire.ReasonFenced {
		wait = min(wait, fenceGrace)
	}
	if v.guest != nil {
		asked := time.Now()
		g, err := w.endGuest(ctx, w.a.driver(v.rec.Kind), wait)
		if err != nil && !errors.Is(err, hypervisor.ErrNoGuest) {
			return fmt.Errorf("stop guest: %w", err)
		}
		if e.Reason == nodewire.ReasonAsked {
			e.stopped(v, g, asked, wait)
		}
		if err == nil && e.ExitCode == nil && g.State == hypervisor.Exited && !g.StartedAt.IsZero() {
			e.ExitCode = &g.ExitCode
			e.RanForSeconds = max(e.RanForSeconds, ran(view{guest: &g}))
		}
		if e.LastLines == "" && e.State != nodewire.GuestGone {
			e.LastLines = w.lastLines(ctx, v.rec.Kind)
		}
	}
	if err := w.giveBack(ctx, v, append([]int64{v.rec.Epoch}, v.rec.Earlier...), e.State != nodewire.GuestGone, wait); err != nil {
		return err
	}
	e.Done = true
	return w.a.ledger.update(func(s *state) error {
		rec, ok := s.Records[w.id]
		if !ok || rec.Epoch != v.rec.Epoch {
			return errSuperseded
		}
		rec.End, rec.Earlier = &e, nil
		s.Records[w.id] = rec
		return nil
	})
}

// stopped tells how a run ended that we were asked to end: when the guest was gone,
// which is later than the wish, and whether it had to be switched off.
func (e *ending) stopped(v view, g hypervisor.Guest, asked time.Time, grace time.Duration) {
	now := time.Now()
	if at := g.ExitedAt; at.After(e.At) && !at.After(now) {
		e.At = at
	} else if at.IsZero() && v.guest.State == hypervisor.Running {
		e.At = now
	}
	if v.rec.Kind == "vm" && e.State == nodewire.GuestStopped && v.guest.State == hypervisor.Running &&
		g.ExitCode != 0 && now.Sub(asked) >= grace {
		e.Message = fmt.Sprintf("it did not shut down within %d s and was switched off by force", int(grace.Seconds()))
	}
}

// forget leaves no trace of an instance that is no longer assigned.
func (w *worker) forget(ctx context.Context, v view) error {
	if v.stray { // what is here is the stray's
		return w.dropRecord()
	}
	epochs := append([]int64{v.rec.Epoch}, v.rec.Earlier...)
	if v.guest != nil {
		epochs = append(epochs, v.guest.Epoch)
	}
	if err := w.giveBack(ctx, v, epochs, false, defaultGrace); err != nil {
		return err
	}
	return w.dropRecord()
}

func (w *worker) dropRecord() error {
	return w.a.ledger.update(func(s *state) error {
		if s.want(w.id) != nil {
			return errSuperseded
		}
		delete(s.Records, w.id)
		return nil
	})
}

// giveBack ends the guest, then releases the devices of some epochs, in this
// order only, and returns nil once neither the engine nor the board shows them.
func (w *worker) giveBack(ctx context.Context, v view, epochs []int64, keepLogs bool, grace time.Duration) error {
	if d := w.a.driver(v.rec.Kind); d != nil {
		if err := w.stop(ctx, d, v, grace); err != nil {
			return err
		}
		if err := d.Remove(ctx, w.id, keepLogs); err != nil && !errors.Is(err, hypervisor.ErrNoGuest) {
			return fmt.Errorf("remove guest: %w", err)
		}
		left, err := w.look(ctx, v.rec.Kind)
		if err != nil {
			return err
		}
		if left != nil {
			return fmt.Errorf("remove guest: the engine still has it (%s)", left.State)
		}
	}
	if w.a.cfg.Board == nil {
		return nil
	}
	if !w.a.cardsBegun() {
		if held, err := w.a.held.fresh(ctx); err != nil || len(held[w.id]) > 0 {
			if err := w.awaitCards(ctx); err != nil {
				return err
			}
		}
	}
	for _, e := range epochs {
		if err := w.a.cfg.Board.Release(ctx, w.id, e); err != nil {
			return fmt.Errorf("release devices: %w", err)
		}
	}
	held, err := w.a.held.fresh(ctx)
	if err != nil {
		return fmt.Errorf("list held devices: %w", err)
	}
	if len(held[w.id]) > 0 {
		return fmt.Errorf("release devices: the board still holds %d", len(held[w.id]))
	}
	if v.want != nil && len(v.want.Devices) > 0 {
		// What is told from here on frees them, so a card that is cleaned now must show it.
		w.a.takeInventory(ctx)
		w.a.cards.nudge()
	}
	return nil
}

func (w *worker) stop(ctx context.Context, d hypervisor.Driver, v view, grace time.Duration) error {
	if v.guest == nil {
		return nil
	}
	if _, err := w.endGuest(ctx, d, grace); err != nil && !errors.Is(err, hypervisor.ErrNoGuest) {
		return fmt.Errorf("stop guest: %w", err)
	}
	return nil
}

// grace is what a guest gets to end by itself. One that is deleted has nothing
// left to save on this node, so it is not waited for as long.
func grace(want *nodewire.Instance) time.Duration {
	if want == nil || want.StopGraceSeconds <= 0 {
		return defaultGrace
	}
	g := time.Duration(want.StopGraceSeconds) * time.Second
	if want.Desired == nodewire.DesiredGone {
		return min(g, deleteGrace)
	}
	return g
}
