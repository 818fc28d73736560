package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// Volumes is the node's storage of what outlives a run.
type Volumes interface {
	// Ensure makes a volume where there is none, enlarges it if more is asked for,
	// and gives its folder.
	Ensure(ctx context.Context, v nodewire.Volume) (folder string, err error)
	Has(ctx context.Context, id string) (bool, error)
	// Remove deletes a volume and its data; one that is not there is removed.
	Remove(ctx context.Context, id string) error
	List(ctx context.Context) ([]volume.Found, error)
}

// volumes is what reports tell of them.
type volumes struct {
	kick chan struct{}

	mu      sync.Mutex
	states  map[string]nodewire.VolumeReport
	orphans []nodewire.Orphan
	fresh   map[string]bool // made for a guest that was not prepared yet: they hold nothing
}

func (v *volumes) init() {
	v.kick, v.states, v.fresh = make(chan struct{}, 1), map[string]nodewire.VolumeReport{}, map[string]bool{}
}

func (v *volumes) report(r *nodewire.Report) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.states {
		r.Volumes = append(r.Volumes, s)
	}
	sort.Slice(r.Volumes, func(i, j int) bool { return r.Volumes[i].ID < r.Volumes[j].ID })
	r.Orphans = append(r.Orphans, v.orphans...)
}

// set keeps what is said of a volume, and reports whether that is news.
func (v *volumes) set(s nodewire.VolumeReport) (news bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.states[s.ID]
	v.states[s.ID] = s
	return old.State != s.State || old.Message != s.Message
}

const lostVolume = "this node no longer has its data"

// volumeLoop grows and removes volumes. They are made on demand, before a guest.
func (a *Agent) volumeLoop(ctx context.Context) {
	if a.cfg.Volumes == nil {
		return
	}
	tick := time.NewTicker(a.t.Resync)
	defer tick.Stop()
	for {
		if err := a.settleVolumes(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("look after volumes", "error", err) // what was known of them stands
		}
		select {
		case <-ctx.Done():
			return
		case <-a.volumes.kick:
		case <-tick.C:
		}
	}
}

func (a *Agent) settleVolumes(ctx context.Context) error {
	s := a.ledger.snapshot()
	if s.Assignment == nil {
		return nil // nobody has said yet what is ours
	}
	list, err := a.cfg.Volumes.List(ctx)
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	found := make(map[string]volume.Found, len(list))
	for _, f := range list {
		found[f.ID] = f
	}
	listed, news := map[string]bool{}, false
	for _, v := range s.Assignment.Volumes {
		listed[v.ID] = true
		f, here := found[v.ID]
		if said, ok := a.settleVolume(ctx, s, v, f, here); ok {
			news = a.volumes.set(said) || news
		}
	}
	a.pruneImages(ctx, s, list)
	left := []nodewire.Orphan{}
	for _, f := range list {
		if listed[f.ID] {
			continue
		}
		if (slices.Contains(s.Assignment.Remove, f.ID) || a.volumes.isFresh(f.ID)) && !s.mounted(f.ID) {
			if err := a.removeVolume(ctx, f.ID); err != nil {
				a.log.Warn("remove a volume that an operator let go", "volume", f.ID, "error", err)
			} else {
				a.log.Info("a volume that an operator let go was removed", "volume", f.ID)
				news = true
				continue
			}
		}
		left = append(left, nodewire.Orphan{Driver: "volume", ID: f.ID, What: fmt.Sprintf("%s volume of %d MiB, %d MiB used", f.Role, f.SizeMiB, f.UsedMiB)})
	}
	a.volumes.mu.Lock()
	for id := range a.volumes.states {
		if !listed[id] {
			delete(a.volumes.states, id)
			news = true
		}
	}
	news = news || !slices.EqualFunc(left, a.volumes.orphans, func(x, y nodewire.Orphan) bool { return x.ID == y.ID })
	a.volumes.orphans = left
	a.volumes.mu.Unlock()
	if news {
		a.dirty()
	}
	return nil
}

// settleVolume takes one step with a volume and says how it stands; nothing is
// said of one that is still to be made.
func (a *Agent) settleVolume(ctx context.Context, s *state, v nodewire.Volume, f volume.Found, here bool) (nodewire.VolumeReport, bool) {
	said := nodewire.VolumeReport{ID: v.ID, State: nodewire.VolumePresent, UsedMiB: f.UsedMiB}
	whole := here && f.Role != ""
	switch {
	case v.Desired == nodewire.VolumeGone && s.mounted(v.ID):
		return said, whole // a guest of its instance may be left
	case v.Desired == nodewire.VolumeGone:
		if err := a.removeVolume(ctx, v.ID); err != nil {
			a.log.Warn("remove volume", "volume", v.ID, "error", err)
			said.State, said.Message = nodewire.VolumeFailed, "it could not be removed; the node tries again"
			return said, true
		}
		said.State, said.UsedMiB = nodewire.VolumeGone, 0
		return said, true
	case !whole && (v.Made || s.Kept[v.ID]):
		said.State, said.Message, said.UsedMiB = nodewire.VolumeFailed, lostVolume, 0
		return said, true
	case !whole, a.volumes.isFresh(v.ID):
		return said, false
	case f.SizeMiB < v.SizeMiB:
		if _, err := a.cfg.Volumes.Ensure(ctx, v); err != nil {
			a.log.Warn("enlarge volume", "volume", v.ID, "error", err)
			said.Message = "it could not be enlarged; the node tries again"
		}
	}
	if err := a.keepVolume(v.ID, true); err != nil {
		a.log.Warn("note that a volume is here", "volume", v.ID, "error", err)
	}
	return said, true
}

// pruneImages lets go of images that no disk is based on. Where a disk is missing
// that should be here, somebody may yet bring it back.
func (a *Agent) pruneImages(ctx context.Context, s *state, list []volume.Found) {
	var folders []string
	here := map[string]bool{}
	for _, f := range list {
		here[f.ID] = true
		folders = append(folders, f.Folder)
	}
	for id := range s.Kept {
		if !here[id] {
			return
		}
	}
	for _, d := range a.cfg.Drivers {
		if p, ok := d.(hypervisor.Pruner); ok {
			if err := p.Prune(ctx, folders); err != nil {
				a.log.Warn("prune images", "error", err)
			}
		}
	}
}

// mounted reports that a guest may be left that has a volume mounted.
func (s *state) mounted(id string) bool {
	for _, rec := range s.Records {
		if slices.Contains(rec.Volumes, id) && (rec.End == nil || !rec.End.Done) {
			return true
		}
	}
	for _, st := range s.Strays {
		if slices.Contains(st.Volumes, id) {
			return true
		}
	}
	return false
}

func (a *Agent) removeVolume(ctx context.Context, id string) error {
	if err := a.cfg.Volumes.Remove(ctx, id); err != nil {
		return err
	}
	a.volumes.setFresh(id, false)
	return a.keepVolume(id, false)
}

func (a *Agent) keepVolume(id string, here bool) error {
	if a.ledger.snapshot().Kept[id] == here {
		return nil
	}
	return a.ledger.update(func(s *state) error {
		if here {
			s.Kept[id] = true
		} else {
			delete(s.Kept, id)
		}
		return nil
	})
}

// folders has the volumes of an instance there before it is prepared.
func (w *worker) folders(ctx context.Context, want *nodewire.Instance) (map[string]string, error) {
	if len(want.Mounts) == 0 {
		return nil, nil //nolint:nilnil // it has none
	}
	store, s := w.a.cfg.Volumes, w.a.ledger.snapshot()
	if store == nil {
		return nil, volumeFailure("this node keeps no volumes", nil, true)
	}
	folders := map[string]string{}
	for _, m := range want.Mounts {
		i := slices.IndexFunc(s.Assignment.Volumes, func(v nodewire.Volume) bool { return v.ID == m.VolumeID })
		if i < 0 || s.Assignment.Volumes[i].Desired != nodewire.VolumePresent {
			return nil, volumeFailure("its volume is not assigned to this node", nil, false)
		}
		v := s.Assignment.Volumes[i]
		made := v.Made || s.Kept[v.ID]
		if made {
			has, err := store.Has(ctx, v.ID)
			if err != nil {
				return nil, volumeFailure("its volume could not be read", err, false)
			}
			if !has {
				return nil, volumeFailure(lostVolume, nil, true)
			}
		}
		if !made {
			if has, err := store.Has(ctx, v.ID); err == nil && !has {
				w.a.volumes.setFresh(v.ID, true)
			}
		}
		folder, err := store.Ensure(ctx, v)
		if err != nil {
			f := volumeFailure("its volume could not be made", err, false)
			if errors.Is(err, volume.ErrFull) {
				f.Reason, f.Message = nodewire.ReasonDiskFull, "the node has no room for its volume"
			}
			// One that was made is not lost for that: how it is, the next look says.
			if !made && w.a.volumes.set(nodewire.VolumeReport{ID: v.ID, State: nodewire.VolumeFailed, Message: f.Message}) {
				w.a.dirty()
			}
			return nil, f
		}
		folders[v.ID] = folder
	}
	return folders, nil
}

// keepVolumes says of a prepared guest's volumes that they are here: from now on
// they may hold something.
func (w *worker) keepVolumes(want *nodewire.Instance) error {
	for _, m := range want.Mounts {
		if err := w.a.keepVolume(m.VolumeID, true); err != nil {
			return err
		}
		w.a.volumes.setFresh(m.VolumeID, false)
		w.a.volumes.mu.Lock()
		known := w.a.volumes.states[m.VolumeID].State == nodewire.VolumePresent
		w.a.volumes.mu.Unlock()
		if !known && w.a.volumes.set(nodewire.VolumeReport{ID: m.VolumeID, State: nodewire.VolumePresent}) {
			w.a.dirty()
		}
	}
	return nil
}

// dropFresh takes away the volumes of a guest that could not be prepared, if they
// were made for that: a refused image leaves nothing.
func (w *worker) dropFresh(ctx context.Context, want *nodewire.Instance) {
	for _, m := range want.Mounts {
		if !w.a.volumes.isFresh(m.VolumeID) {
			continue
		}
		if err := w.a.removeVolume(ctx, m.VolumeID); err != nil {
			w.log.Warn("remove a volume that was not used", "volume", m.VolumeID, "error", err)
		}
	}
}

func (v *volumes) isFresh(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fresh[id]
}

func (v *volumes) setFresh(id string, fresh bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if fresh {
		v.fresh[id] = true
	} else {
		delete(v.fresh, id)
	}
}

func volumeFailure(message string, err error, final bool) *hypervisor.Failure {
	return &hypervisor.Failure{Reason: nodewire.ReasonVolume, Message: message, Err: err, Final: final}
}
