package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fabric is NVIDIA's Fabric Manager in its shared mode: which cards of a board
// with NVSwitches may talk to each other. A VM gets its cards only while exactly
// their partition is active.
type Fabric interface {
	Partitions(ctx context.Context) ([]FabricPartition, error)
	Activate(ctx context.Context, id int) error
	Deactivate(ctx context.Context, id int) error
}

// FabricPartition is a set of cards as Fabric Manager lists it.
type FabricPartition struct {
	ID     int
	Active bool
	GPUs   []FabricGPU
}

// FabricGPU names a card. Of one that is bound to vfio-pci only the module is
// known; modules do not follow the order of PCI addresses.
type FabricGPU struct {
	Module     int
	UUID       string
	PCIAddress string
}

// Partition is a set of cards that can be joined, by PCI address, sorted.
type Partition struct {
	ID     int
	Active bool
	Cards  []string
}

// MapPartitions finds the cards of each partition, by the address that Fabric
// Manager tells or else by the module. A partition with a card that isn't found
// is left out, with the reason.
func MapPartitions(list []FabricPartition, modules map[int]string) (parts []Partition, reasons []string) {
	for _, p := range list {
		out := Partition{ID: p.ID, Active: p.Active}
		for _, g := range p.GPUs {
			card, ok := modules[g.Module]
			if g.PCIAddress != "" {
				card, ok = g.PCIAddress, true
			}
			if !ok || slices.Contains(out.Cards, card) {
				reasons = append(reasons, fmt.Sprintf("partition %d: no card is known to be module %d", p.ID, g.Module))
				out.Cards = nil
				break
			}
			out.Cards = append(out.Cards, card)
		}
		if len(out.Cards) > 0 {
			slices.Sort(out.Cards)
			parts = append(parts, out)
		}
	}
	return parts, reasons
}

// PartitionOf finds the partition of exactly these cards.
func PartitionOf(parts []Partition, cards []string) (Partition, bool) {
	want := slices.Sorted(slices.Values(cards))
	for _, p := range parts {
		if slices.Equal(p.Cards, want) {
			return p, true
		}
	}
	return Partition{}, false
}

// TogetherNow lists the sets of cards that may be handed to one VM now: a listed
// partition of which no card is taken, nor joined to others.
func TogetherNow(parts []Partition, taken map[string]bool) [][]string {
	var out [][]string
	for _, p := range parts {
		joined := slices.ContainsFunc(parts, func(q Partition) bool { return q.Active && q.ID != p.ID && shareCard(p, q) })
		if !joined && !slices.ContainsFunc(p.Cards, func(c string) bool { return taken[c] }) {
			out = append(out, p.Cards)
		}
	}
	slices.SortStableFunc(out, func(a, b []string) int { return len(a) - len(b) })
	return out
}

// TogetherEver are the numbers of cards that one VM can get.
func TogetherEver(parts []Partition) []int {
	var out []int
	for _, p := range parts {
		out = append(out, len(p.Cards))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func shareCard(p, q Partition) bool {
	return slices.ContainsFunc(p.Cards, func(c string) bool { return slices.Contains(q.Cards, c) })
}

// FabricStep is one change.
type FabricStep struct {
	ID int
	On bool
}

func (s FabricStep) String() string {
	if s.On {
		return fmt.Sprintf("activate partition %d", s.ID)
	}
	return fmt.Sprintf("deactivate partition %d", s.ID)
}

// PlanFabric decides the steps from what is active to what guests need, given
// what the ledger says that we activated. Ours that nobody needs go first, so
// that what a crash left is in nobody's way; others' are never touched.
func PlanFabric(parts []Partition, need, ours []int) (steps []FabricStep, reasons []string) {
	var stays []Partition
	for _, p := range parts {
		switch {
		case !p.Active:
		case slices.Contains(ours, p.ID) && !slices.Contains(need, p.ID):
			steps = append(steps, FabricStep{ID: p.ID})
		default:
			stays = append(stays, p)
		}
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(need))) {
		i := slices.IndexFunc(parts, func(p Partition) bool { return p.ID == id })
		switch {
		case i < 0:
			reasons = append(reasons, fmt.Sprintf("Fabric Manager lists no partition %d", id))
			continue
		case parts[i].Active:
			continue
		}
		if j := slices.IndexFunc(stays, func(q Partition) bool { return shareCard(parts[i], q) }); j >= 0 {
			who := "which Tenon did not activate"
			if slices.Contains(need, stays[j].ID) {
				who = "which is needed too"
			}
			reasons = append(reasons, fmt.Sprintf("partition %d: in the way is active partition %d (%s), %s", id, stays[j].ID, strings.Join(stays[j].Cards, ", "), who))
			continue
		}
		steps = append(steps, FabricStep{ID: id, On: true})
		stays = append(stays, parts[i])
	}
	return steps, reasons
}

// FabricLedger keeps which active partitions are ours; on disk when it returns.
type FabricLedger interface {
	Activated() []int
	SetActivated(ids []int) error
}

// ApplyFabric brings the partitions to what guests need: before a guest starts,
// after one has stopped, and when the agent begins. It reads back after each step
// and returns the reason when a needed partition is not active at the end.
func ApplyFabric(ctx context.Context, f Fabric, ledger FabricLedger, modules map[int]string, need []int) error {
	var failures []string
	tried := map[FabricStep]bool{}
	for {
		list, err := f.Partitions(ctx)
		if err != nil {
			return fmt.Errorf("list fabric partitions: %w", err)
		}
		parts, reasons := MapPartitions(list, modules)
		steps, blocks := PlanFabric(parts, need, ledger.Activated())
		next := slices.IndexFunc(steps, func(s FabricStep) bool { return !tried[s] })
		if next < 0 {
			return fabricOutcome(ledger, list, need, append(failures, append(blocks, reasons...)...))
		}
		step := steps[next]
		tried[step] = true
		if step.On {
			if err := ledger.SetActivated(with(ledger.Activated(), step.ID)); err != nil {
				return fmt.Errorf("%s: write the ledger: %w", step, err)
			}
			err = f.Activate(ctx, step.ID)
		} else {
			err = f.Deactivate(ctx, step.ID)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", step, ctx.Err())
		}
		if err != nil {
			failures = append(failures, fmt.Sprintf("%s: %v", step, err))
		}
	}
}

// fabricOutcome keeps in the ledger what is active and ours, and says what lacks.
func fabricOutcome(ledger FabricLedger, list []FabricPartition, need []int, reasons []string) error {
	active := map[int]bool{}
	for _, p := range list {
		active[p.ID] = p.Active
	}
	before := ledger.Activated()
	ours := slices.DeleteFunc(slices.Clone(before), func(id int) bool { return !active[id] })
	lacking := map[int]string{}
	for _, id := range need {
		if active[id] {
			ours = with(ours, id) // its cards are ours, so it is
		} else {
			lacking[id] = ""
		}
	}
	for _, id := range ours {
		if !slices.Contains(need, id) {
			lacking[id] = " (still active)"
		}
	}
	if !slices.Equal(ours, before) {
		if err := ledger.SetActivated(ours); err != nil {
			return fmt.Errorf("write the ledger: %w", err)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	if len(reasons) == 0 {
		reasons = []string{"Fabric Manager said that it was done, and shows otherwise"}
	}
	return &FabricError{Lacking: lacking, Reasons: reasons}
}

// FabricError says which partitions are not as guests need them: each by itself,
// so that what is wrong with one guest's is no reason for another to wait.
type FabricError struct {
	Lacking map[int]string // how it is, by partition
	Reasons []string
}

func (e *FabricError) Error() string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(e.Lacking)) {
		list = append(list, fmt.Sprint(id, e.Lacking[id]))
	}
	return fmt.Sprintf("fabric partition %s: %s", strings.Join(list, ", "), strings.Join(e.Reasons, "; "))
}

func with(ids []int, id int) []int {
	return slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(ids), id))))
}
