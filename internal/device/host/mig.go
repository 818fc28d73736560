package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// MIGWish is how a card is to be cut.
type MIGWish struct {
	On bool
	// Fixed: the places are a layout. It changes only while nothing of the card is
	// held; otherwise slices come and go with the instances that have them.
	Fixed  bool
	Places []nodewire.Place // that are to exist
	Held   []nodewire.Place // that instances hold: never destroyed
}

// MIGWishOf reads a card's wish, given what instances hold of it or are assigned.
func MIGWishOf(card nodewire.Card, held []nodewire.Place) MIGWish {
	w := MIGWish{On: card.Mode == "mig" || card.Mode == "vgpu" && card.VGPUType == "", Fixed: len(card.Layout) > 0, Held: held}
	if !w.On {
		w.Fixed = false
		return w
	}
	w.Places = slices.Clone(card.Layout)
	for _, p := range held {
		if !slices.Contains(w.Places, p) {
			w.Places = append(w.Places, p)
		}
	}
	return w
}

// MIGReading is one look at a card.
type MIGReading struct {
	Card      DriverCard
	Profiles  []MIGProfile
	Instances []GPUInstance
}

// OwnedSlice is a line of the ledger: a slice that we made, or were about to.
type OwnedSlice struct {
	Place nodewire.Place `json:"place"`
	UUID  string         `json:"uuid,omitempty"` // empty: it was being made
	Boot  string         `json:"boot"`           // of the host: instances don't outlive it
}

// MIGAction is a kind of step.
type MIGAction string

const (
	MIGDestroy MIGAction = "destroy"
	MIGOn      MIGAction = "mode on"
	MIGOff     MIGAction = "mode off"
	MIGReset   MIGAction = "reset"
	MIGCreate  MIGAction = "create"
)

// MIGStep is one change of a card.
type MIGStep struct {
	Action    MIGAction
	Instance  int            // to destroy
	Place     nodewire.Place // to destroy or create
	ProfileID int            // to create
}

func (s MIGStep) String() string {
	switch s.Action {
	case MIGDestroy:
		return fmt.Sprintf("destroy GPU instance %d (%s)", s.Instance, spell(s.Place))
	case MIGCreate:
		return "create " + spell(s.Place)
	case MIGReset:
		return "reset the card"
	}
	return "set MIG " + string(s.Action)
}

func spell(p nodewire.Place) string {
	return fmt.Sprintf("%s at %d to %d", p.Profile, p.SlotStart, p.SlotEnd)
}

// MIGPlan is what to do now, in order, and why no more than that.
type MIGPlan struct {
	Steps   []MIGStep
	Reasons []string // what stands in the way of the wish
	Busy    bool     // a slice that is to go is used
}

func (p *MIGPlan) block(format string, args ...any) {
	p.Reasons = append(p.Reasons, fmt.Sprintf(format, args...))
}

// PlanMIG decides the steps from what is to what is wished. It never destroys
// what is held, used or not ours.
func PlanMIG(wish MIGWish, r MIGReading, owned []OwnedSlice, boot string) MIGPlan {
	var plan MIGPlan
	mine, foreign := splitInstances(r, owned, boot)
	if wish.On && r.Card.MIG.Current {
		switch idle := len(wish.Held)+len(foreign)+len(r.Card.Processes) == 0; {
		case r.Card.MIG.Pending:
		case idle:
			plan.Steps = append(plan.Steps, MIGStep{Action: MIGOn})
		default:
			plan.block("MIG mode was set to go off with the next reset, and the card is in use")
		}
		planLayout(&plan, wish, r, mine, foreign)
		return plan
	}
	planMode(&plan, wish, r, mine, foreign)
	return plan
}

// planMode brings an idle card into MIG mode or out of it.
func planMode(plan *MIGPlan, wish MIGWish, r MIGReading, mine map[int]nodewire.Place, foreign []GPUInstance) {
	mode := r.Card.MIG
	switch {
	case !wish.On && mode.Settled(false):
		return
	case wish.On && !mode.Capable:
		plan.block("the card or its driver has no MIG")
		return
	case !wish.On && len(wish.Held) > 0:
		plan.block("slices of it are held; its mode changes once it is idle")
		return
	case len(foreign) > 0:
		plan.block("its mode changes once nothing is on it: %s", foreignList(r, foreign))
		return
	case len(r.Card.Processes) > 0:
		plan.block("its mode changes once nothing uses it: %s does", r.Card.Processes[0])
		return
	}
	for _, i := range r.Instances {
		if p, ours := mine[i.ID]; ours {
			plan.Steps = append(plan.Steps, MIGStep{Action: MIGDestroy, Instance: i.ID, Place: p})
		}
	}
	switch {
	case mode.Pending != wish.On && wish.On:
		plan.Steps = append(plan.Steps, MIGStep{Action: MIGOn})
	case mode.Pending != wish.On:
		plan.Steps = append(plan.Steps, MIGStep{Action: MIGOff})
	default:
		plan.Steps = append(plan.Steps, MIGStep{Action: MIGReset})
	}
}

// planLayout brings the slices of a card that is in MIG mode to their places.
func planLayout(plan *MIGPlan, wish MIGWish, r MIGReading, mine map[int]nodewire.Place, foreign []GPUInstance) {
	geo, err := GeometryOf(r.Profiles)
	if err != nil {
		plan.block("%v", err)
		return
	}
	if err := checkPlaces(geo, wish.Places); err != nil {
		plan.block("impossible on this card: %v", err)
		return
	}
	there := map[nodewire.Place]bool{}
	var going []MIGStep
	for _, i := range r.Instances {
		p, ours := mine[i.ID]
		if !ours {
			continue
		}
		// What has no compute instance is the rest of a crash, and no use to anyone.
		if i.Computes > 0 && slices.Contains(wish.Places, p) {
			there[p] = true
			continue
		}
		if user := userOf(r.Card, i.ID); user != nil || i.Computes > 0 && slices.Contains(wish.Held, p) {
			if user != nil {
				plan.block("%s stays: %s uses it", spell(p), user)
				plan.Busy = true
			}
			there[p] = true
			continue
		}
		going = append(going, MIGStep{Action: MIGDestroy, Instance: i.ID, Place: p})
	}
	if wish.Fixed && len(wish.Held) > 0 && slices.ContainsFunc(going, func(s MIGStep) bool { return !slices.Contains(wish.Places, s.Place) }) {
		plan.block("its layout changes once nothing of it is held")
		for _, s := range going {
			there[s.Place] = true
		}
		going = nil
	}
	plan.Steps = append(plan.Steps, going...)

	wanted := slices.Clone(wish.Places)
	slices.SortFunc(wanted, func(a, b nodewire.Place) int {
		if d := (b.SlotEnd - b.SlotStart) - (a.SlotEnd - a.SlotStart); d != 0 {
			return d
		}
		return a.SlotStart - b.SlotStart
	})
	for _, p := range wanted {
		if there[p] {
			continue
		}
		if step, ok := planCreate(plan, geo, r, p, there, foreign); ok {
			plan.Steps = append(plan.Steps, step)
		}
	}
}

func planCreate(plan *MIGPlan, geo *gpu.Geometry, r MIGReading, p nodewire.Place, there map[nodewire.Place]bool, foreign []GPUInstance) (MIGStep, bool) {
	profile, ok := profileOf(geo, r.Profiles, p.Profile)
	if !ok {
		plan.block("the driver lists no profile %s on this card", p.Profile)
		return MIGStep{}, false
	}
	if !slices.Contains(profile.Starts, p.SlotStart) || p.SlotEnd-p.SlotStart != profile.Slots {
		plan.block("the driver takes %s only at %v, %d slots each, not at %d to %d", profile.Name, profile.Starts, profile.Slots, p.SlotStart, p.SlotEnd)
		return MIGStep{}, false
	}
	if i := slices.IndexFunc(foreign, func(f GPUInstance) bool { return overlap(p, f) }); i >= 0 {
		plan.block("%s: in the way is %s", spell(p), foreignList(r, foreign[i:i+1]))
		return MIGStep{}, false
	}
	for q := range there {
		if p.SlotStart < q.SlotEnd && q.SlotStart < p.SlotEnd {
			plan.block("%s: in the way is %s, which stays", spell(p), spell(q))
			return MIGStep{}, false
		}
	}
	return MIGStep{Action: MIGCreate, Place: p, ProfileID: profile.ID}, true
}

func overlap(p nodewire.Place, i GPUInstance) bool {
	return p.SlotStart < i.Start+i.Size && i.Start < p.SlotEnd
}

// splitInstances tells ours from others'. Ours are those that the ledger names at
// their place in this boot, under the same UUID where both are known.
func splitInstances(r MIGReading, owned []OwnedSlice, boot string) (mine map[int]nodewire.Place, foreign []GPUInstance) {
	mine = map[int]nodewire.Place{}
	geo, err := GeometryOf(r.Profiles)
	for _, i := range r.Instances {
		var at nodewire.Place
		if err == nil {
			at = placeOf(geo, r.Profiles, i)
		}
		ours := slices.ContainsFunc(owned, func(o OwnedSlice) bool {
			same := o.UUID == "" || i.UUID == "" || strings.EqualFold(o.UUID, i.UUID) || strings.EqualFold(o.UUID, i.OldUUID)
			return o.Place == at && o.Boot == boot && same
		})
		if ours {
			mine[i.ID] = at
		} else {
			foreign = append(foreign, i)
		}
	}
	return mine, foreign
}

// placeOf is where an instance is; the profile of one that has no class is the
// driver's name of it.
func placeOf(geo *gpu.Geometry, profiles []MIGProfile, i GPUInstance) nodewire.Place {
	at := nodewire.Place{Profile: fmt.Sprintf("profile %d", i.ProfileID), SlotStart: i.Start, SlotEnd: i.Start + i.Size}
	for _, p := range profiles {
		if p.ID == i.ProfileID {
			at.Profile = p.Name
			if class, ok := ClassOf(geo, p); ok {
				at.Profile = class
			}
			break
		}
	}
	return at
}

// SlicesOf is a reading for a report. Its owners are the ledger's to say.
func SlicesOf(r MIGReading, owned []OwnedSlice, boot string) []nodewire.Slice {
	mine, _ := splitInstances(r, owned, boot)
	geo, err := GeometryOf(r.Profiles)
	if err != nil {
		return nil
	}
	var out []nodewire.Slice
	for _, i := range r.Instances {
		at := placeOf(geo, r.Profiles, i)
		_, ours := mine[i.ID]
		out = append(out, nodewire.Slice{UUID: i.UUID, Profile: at.Profile, SlotStart: at.SlotStart, SlotEnd: at.SlotEnd, Foreign: !ours, MemoryMiB: i.MemoryMiB})
	}
	slices.SortFunc(out, func(a, b nodewire.Slice) int { return a.SlotStart - b.SlotStart })
	return out
}

// MissingOf are the places of a layout where no slice of ours can be used.
func MissingOf(layout []nodewire.Place, r MIGReading, owned []OwnedSlice, boot string) []nodewire.Place {
	have := SlicesOf(r, owned, boot)
	var out []nodewire.Place
	for _, p := range layout {
		if !slices.ContainsFunc(have, func(s nodewire.Slice) bool {
			return !s.Foreign && s.UUID != "" && s.Profile == p.Profile && s.SlotStart == p.SlotStart && s.SlotEnd == p.SlotEnd
		}) {
			out = append(out, p)
		}
	}
	return out
}

// GeometryOf tells from the driver's profiles how a card is cut.
func GeometryOf(profiles []MIGProfile) (*gpu.Geometry, error) {
	most := 0
	for _, p := range profiles {
		most = max(most, p.Slots)
	}
	switch most {
	case 8:
		return gpu.GeometryByName(gpu.MIG8)
	case 4:
		return gpu.GeometryByName(gpu.MIG4)
	}
	return nil, fmt.Errorf("the driver lists no known way to cut this card (its largest profile has %d memory slices)", most)
}

// ClassOf is a driver's profile as one of a geometry's classes: by its slices and
// attributes, never by the number in its name.
func ClassOf(geo *gpu.Geometry, p MIGProfile) (string, bool) {
	media := slices.Equal(p.Attributes, []string{"me"})
	if len(p.Attributes) > 0 && !media {
		return "", false
	}
	for _, q := range geo.Profiles {
		if q.Compute == p.Compute && q.Slots == p.Slots && q.Media == media {
			return q.Class, true
		}
	}
	return "", false
}

// profilesTold is what slices of a card have, as its driver tells it.
func profilesTold(list []MIGProfile) (out []nodewire.Profile) {
	geo, err := GeometryOf(list)
	if err != nil {
		return nil
	}
	for _, p := range list {
		if class, ok := ClassOf(geo, p); ok {
			out = append(out, nodewire.Profile{Profile: class, MemoryMiB: p.MemoryMiB, SMs: p.SMs})
		}
	}
	return out
}

func profileOf(geo *gpu.Geometry, profiles []MIGProfile, class string) (MIGProfile, bool) {
	for _, p := range profiles {
		if c, ok := ClassOf(geo, p); ok && c == class {
			return p, true
		}
	}
	return MIGProfile{}, false
}

func checkPlaces(geo *gpu.Geometry, places []nodewire.Place) error {
	var at []gpu.Place
	for _, p := range places {
		q, ok := geo.Profile(p.Profile)
		if ok && q.At(p.SlotStart).End != p.SlotEnd {
			return fmt.Errorf("%s has %d slots, not %d to %d", p.Profile, q.Slots, p.SlotStart, p.SlotEnd)
		}
		at = append(at, gpu.Place{Class: p.Profile, Start: p.SlotStart})
	}
	return geo.Check(at)
}

func userOf(c DriverCard, instance int) *Process {
	for i := range c.Processes {
		if c.Processes[i].GI == instance {
			return &c.Processes[i]
		}
	}
	return nil
}

func foreignList(r MIGReading, foreign []GPUInstance) string {
	var names []string
	for _, f := range foreign {
		name := fmt.Sprintf("profile %d", f.ProfileID)
		for _, p := range r.Profiles {
			if p.ID == f.ProfileID {
				name = p.Name
			}
		}
		names = append(names, fmt.Sprintf("GPU instance %d (%s at %d to %d), which Tenon did not make", f.ID, name, f.Start, f.Start+f.Size))
	}
	return strings.Join(names, "; ")
}
