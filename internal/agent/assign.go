package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// errStale is an assignment that must not replace the one held.
var errStale = errors.New("a newer assignment is held")

// errInvalid is an assignment that can't be this node's.
var errInvalid = errors.New("invalid assignment")

var cardModes = []string{"whole", "mig", "shared", "vgpu"}

// Ids become parts of file and cgroup names.
var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Assign takes a whole assignment: it is in the ledger when Assign returns, and
// the version returned is the one held then.
func (a *Agent) Assign(next nodewire.Assignment) (nodewire.Version, error) {
	return a.assign(next, func() {})
}

// assign calls accepted once the assignment is found to be the one to hold, and
// before anybody acts on it.
func (a *Agent) assign(next nodewire.Assignment, accepted func()) (nodewire.Version, error) {
	if err := a.validate(next); err != nil {
		return a.ledger.snapshot().version(), err
	}
	a.contact.expire() // what this one brings may run from now on; what is over is over
	err := a.ledger.update(func(s *state) error {
		held := s.version()
		if s.Assignment != nil && !next.Newer(held) {
			if next.Version != held {
				return errStale
			}
			if same(*s.Assignment, next) {
				accepted()
				return nil // said twice
			}
			// The control plane is the one source of truth: what it says of the
			// same version now is what it means, and refusing would last for ever.
			a.log.Warn("an assignment came again with other content", "era", held.Era, "generation", held.Generation)
		}
		if s.Assignment != nil && s.Assignment.Era != next.Era {
			s.setAside(next)
		}
		for _, inst := range next.Instances {
			s.Records[inst.ID] = admit(s.Records, inst)
		}
		s.assign(&next)
		s.letGo()
		accepted()
		return nil
	})
	held := a.ledger.snapshot().version()
	if err != nil {
		return held, err
	}
	a.sync()
	a.settle()
	a.cards.nudge()
	return held, nil
}

// same compares what would be written: an empty list and none are alike there.
func same(x, y nodewire.Assignment) bool {
	a, errA := json.Marshal(x)
	b, errB := json.Marshal(y)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// admit is the record under which a step for inst may be taken.
func admit(records map[string]record, inst nodewire.Instance) record {
	rec, known := records[inst.ID]
	mounted := rec.Volumes
	for _, m := range inst.Mounts {
		if !slices.Contains(mounted, m.VolumeID) {
			mounted = append(slices.Clone(mounted), m.VolumeID)
		}
	}
	if known && rec.Epoch == inst.Epoch {
		rec.Volumes = mounted
		return rec
	}
	next := record{Kind: inst.Kind, Epoch: inst.Epoch, Volumes: mounted}
	if known {
		next.Earlier = slices.Clone(rec.Earlier)
		if rec.End == nil || !rec.End.Done {
			next.Earlier = append(next.Earlier, rec.Epoch)
		}
	}
	return next
}

func (a *Agent) validate(as nodewire.Assignment) error {
	if other(as.NodeID, a.cfg.NodeID) || other(as.CloudID, a.cfg.CloudID) {
		return fmt.Errorf("%w: it is for node %s of cloud %s", errInvalid, as.NodeID, as.CloudID)
	}
	if as.Era == "" {
		return fmt.Errorf("%w: it has no era", errInvalid)
	}
	seen := map[string]bool{}
	for _, inst := range as.Instances {
		switch {
		case !idForm.MatchString(inst.ID):
			return fmt.Errorf("%w: %q is no instance id", errInvalid, inst.ID)
		case seen[inst.ID]:
			return fmt.Errorf("%w: %s is in it twice", errInvalid, inst.ID)
		case inst.Desired != nodewire.DesiredRunning && inst.Desired != nodewire.DesiredStopped && inst.Desired != nodewire.DesiredGone:
			return fmt.Errorf("%w: %s is desired %q", errInvalid, inst.ID, inst.Desired)
		}
		seen[inst.ID] = true
	}
	for _, c := range as.Cards {
		if c.PCIAddress == "" || seen[c.PCIAddress] || !slices.Contains(cardModes, c.Mode) {
			return fmt.Errorf("%w: card %q in mode %q has no address, is in it twice or is of no mode", errInvalid, c.PCIAddress, c.Mode)
		}
		seen[c.PCIAddress] = true
	}
	for _, v := range as.Volumes {
		switch {
		case !idForm.MatchString(v.ID) || seen[v.ID]:
			return fmt.Errorf("%w: %q is no volume id, or is in it twice", errInvalid, v.ID)
		case v.Desired != nodewire.VolumePresent && v.Desired != nodewire.VolumeGone:
			return fmt.Errorf("%w: volume %s is desired %q", errInvalid, v.ID, v.Desired)
		}
		seen[v.ID] = true
	}
	return nil
}
