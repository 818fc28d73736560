package lifecycle

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// States of a volume.
const (
	volumePending  = "pending"
	volumePresent  = "present"
	volumeDeleting = "deleting"
	volumeDeleted  = "deleted"
	volumeLost     = "lost"
)

// backWithin is how fresh a node's word must be for what was lost with it to
// count as there again.
const backWithin = time.Minute

// settled is a step of a volume: how it becomes, and what of its charge ends and
// begins.
type settled struct {
	postgres.VolumeStanding
	ended   *time.Time
	begun   *time.Time
	changed bool
}

// settleVolume draws the conclusion from what a volume's node said, and makes its
// charge follow: one open segment of its size while it is there, none otherwise.
func settleVolume(v postgres.VolumeStanding, now time.Time) settled {
	s := settled{VolumeStanding: v}
	said := now
	if v.SaidAt != nil {
		said = *v.SaidAt
	}
	become := func(state, message string) { s.State, s.Message, s.changed = state, message, true }
	switch {
	case v.State == volumePending && v.Said == nodewire.VolumePresent:
		become(volumePresent, "")
	case v.State == volumeDeleting && v.Said == nodewire.VolumeGone:
		become(volumeDeleted, "")
		if v.EndingAt != nil {
			said = latest(said, *v.EndingAt) // the clock may have been set back since
		}
		s.DeletedAt = &said
	case v.State == volumePresent && v.NodeLost:
		become(volumeLost, "the node that it lies on has not been heard of")
	case v.State == volumePresent && (v.Said == nodewire.VolumeGone || v.Said == nodewire.VolumeFailed):
		// Nobody asked for that. It is not deleted: somebody may bring it back.
		become(volumeLost, "its node no longer has it")
	case v.State == volumeLost && !v.NodeLost && v.Said == nodewire.VolumePresent && v.NodeSeenAt != nil && !said.Before(v.NodeSeenAt.Add(-backWithin)):
		become(volumePresent, "")
	}
	there := s.State == volumePresent
	if s.ChargedMiB != nil && (!there || *s.ChargedMiB != s.SizeMiB) {
		end := s.SizedAt
		switch {
		case s.State == volumeLost && !v.NodeLost:
			end = said
		case s.State == volumeLost && s.NodeSeenAt != nil:
			end = *s.NodeSeenAt // nothing is charged after its last sign of life
		case !there && s.EndingAt != nil:
			end = *s.EndingAt
		case !there:
			end = now
		}
		if s.ChargedAt != nil {
			end = latest(end, *s.ChargedAt)
		}
		s.ended, s.changed = &end, true
	}
	switch {
	case !there:
		s.ChargedMiB = nil
	case s.ChargedMiB == nil:
		s.begun, s.changed = &said, true
	case *s.ChargedMiB != s.SizeMiB:
		s.begun = s.ended
	}
	if there {
		size := s.SizeMiB
		s.ChargedMiB = &size
	}
	return s
}

// volumes takes a step with every volume that needs one. One that the database
// refuses costs only itself.
func (l *Lifecycle) volumes(ctx context.Context) error {
	var after cloud.VolumeID
	alone := 0
	for {
		size := batchSize
		if alone > 0 {
			size, alone = 1, alone-1
		}
		list, err := l.volumePage(ctx, after, size)
		switch {
		case postgres.RowRefused(err) && len(list) > 1:
			alone = len(list)
			continue
		case postgres.RowRefused(err):
			l.metrics.broken.Inc()
			l.log.Error("settle volume", "volume", list[0].ID.String(), "error", err)
		case err != nil:
			return err
		}
		if len(list) < size {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

// volumePage settles the next volumes in one transaction, and gives them also
// when it fails.
func (l *Lifecycle) volumePage(ctx context.Context, after cloud.VolumeID, size int) (list []postgres.VolumeStanding, err error) {
	err = l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		var err error
		if list, err = postgres.VolumesUnsettled(ctx, tx, after, size); err != nil || len(list) == 0 {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		for _, v := range list {
			if err := settle(ctx, tx, settleVolume(v, now)); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func settle(ctx context.Context, tx *postgres.Tx, s settled) error {
	if !s.changed {
		return nil
	}
	var begun *postgres.VolumeSegment
	if s.begun != nil {
		begun = &postgres.VolumeSegment{ID: uuid.Must(uuid.NewV7()), StartedAt: *s.begun}
	}
	if err := postgres.VolumeSettle(ctx, tx, s.VolumeStanding, s.ended, begun); err != nil {
		return err
	}
	tx.Wake(postgres.TopicChange(s.ProjectID))
	if s.State == volumePresent {
		tx.Wake(postgres.TopicSchedule)
	}
	return nil
}
