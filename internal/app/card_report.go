package app

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// What is kept of one report at most.
const (
	cardWordsKept = 32
	vgpuTypesKept = 128
	slicesKept    = 32
	incidentsKept = 256
	excludedKept  = 256
)

var (
	idsForm  = regexp.MustCompile(`^[0-9a-f]{4}$`)
	kindForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,59}$`)
)

// cardOf is what a node says of a card at an address, bounded.
func cardOf(at cloud.PCIAddress, g nodewire.GPU) cloud.GPU {
	out := cloud.GPU{
		UUID: g.UUID, PCIAddress: at.String(), Index: g.Index, Model: g.Model, Geometry: g.Geometry, Mode: cloud.GPUMode(g.Mode),
		State: cloud.GPUState(g.State), Reason: cut(g.Reason, messageBytes), MemoryMiB: g.MemoryMiB, NUMANode: g.NUMANode, NVLink: pciAddresses(g.NVLink),
		Simulated: g.Simulated, Vendor: pciIDs(g.Vendor), Device: pciIDs(g.Device), Driver: cut(g.Driver, 60), Bundle: pciAddresses(g.Bundle), NotForVM: g.NotForVM,
		WishReason: cut(g.Wish, messageBytes), Recovered: max(0, g.Recovered),
	}
	for _, m := range []cloud.GPUMode{cloud.ModeWhole, cloud.ModeMIG, cloud.ModeShared, cloud.ModeVGPU} {
		if slices.Contains(g.Modes, string(m)) {
			out.Modes = append(out.Modes, m)
		}
	}
	for _, s := range bounded(g.Companions, cardWordsKept) {
		out.Companions = append(out.Companions, cut(s, 20))
	}
	for _, t := range bounded(g.VGPUTypes, vgpuTypesKept) {
		out.VGPUTypes = append(out.VGPUTypes, cloud.VGPUType{Name: cut(t.Name, 100), ID: cut(t.ID, 60), Available: max(0, t.Available), MemoryMiB: max(0, t.MemoryMiB)})
	}
	for _, s := range bounded(g.Slices, slicesKept) {
		out.Slices = append(out.Slices, cloud.Slice{UUID: cut(s.UUID, 100), Profile: cut(s.Profile, 60), SlotStart: s.SlotStart, SlotEnd: s.SlotEnd, Foreign: s.Foreign, MemoryMiB: max(0, s.MemoryMiB)})
	}
	for _, p := range bounded(g.Profiles, slicesKept) {
		out.Profiles = append(out.Profiles, cloud.SliceFigures{Profile: cut(p.Profile, 60), MemoryMiB: p.MemoryMiB, SMs: p.SMs})
	}
	for _, p := range bounded(g.Missing, slicesKept) {
		out.Missing = append(out.Missing, cloud.SlicePlace{Profile: cut(p.Profile, 60), SlotStart: p.SlotStart, SlotEnd: p.SlotEnd})
	}
	return out
}

func bounded[T any](list []T, n int) []T { return list[:min(len(list), n)] }

func pciIDs(s string) string {
	if s = strings.TrimPrefix(strings.ToLower(s), "0x"); idsForm.MatchString(s) {
		return s
	}
	return ""
}

// incidentsSaid are the faults of a report, as far as they make sense.
func incidentsSaid(r nodewire.Report) (out []postgres.IncidentSaid) {
	for _, x := range bounded(foremost(r.Incidents), incidentsKept) {
		at, err := cloud.ParsePCIAddress(x.PCIAddress)
		action := x.Action
		switch action {
		case nodewire.ActionNone, nodewire.ActionNeedsReset, nodewire.ActionOut:
		default:
			continue
		}
		if err != nil || x.ID == "" || len(x.ID) > 100 || !kindForm.MatchString(x.Kind) {
			continue
		}
		said := postgres.IncidentSaid{PCIAddress: at.String(), Age: seconds(x.AgeSeconds),
			Incident: cloud.Incident{ID: cut(x.ID, 100), Kind: x.Kind, XID: min(max(x.XID, 0), 1<<20), Action: action, Message: cut(x.Message, messageBytes)}}
		if x.InstanceID != "" && said.InstanceID.UnmarshalText([]byte(x.InstanceID)) != nil {
			said.InstanceID = cloud.InstanceID{}
		}
		out = append(out, said)
	}
	return out
}

// foremost puts the worst incidents first, then the newest of each card in turn: no
// tenant's many hide another's.
func foremost(list []nodewire.Incident) []nodewire.Incident {
	weight := map[string]int{nodewire.ActionNeedsReset: 1, nodewire.ActionOut: 2}
	type ranked struct {
		nodewire.Incident
		rank int // among those of its card and weight
	}
	out := make([]ranked, len(list))
	for i, x := range list {
		out[i].Incident = x
	}
	slices.SortStableFunc(out, func(a, b ranked) int { return cmp.Compare(a.AgeSeconds, b.AgeSeconds) })
	seen := map[string]int{}
	for i, x := range out {
		key := x.PCIAddress + " " + x.Action
		out[i].rank = seen[key]
		seen[key]++
	}
	slices.SortStableFunc(out, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(weight[b.Action], weight[a.Action]), cmp.Compare(a.rank, b.rank))
	})
	sorted := make([]nodewire.Incident, len(out))
	for i, x := range out {
		sorted[i] = x.Incident
	}
	return sorted
}

// excludedSaid are the functions that a report leaves out, once each.
func excludedSaid(r nodewire.Report) (out []cloud.Excluded) {
	seen := map[string]bool{}
	for _, x := range bounded(r.Excluded, excludedKept) {
		at, err := cloud.ParsePCIAddress(x.PCIAddress)
		if err != nil || seen[at.String()] {
			continue
		}
		seen[at.String()] = true
		out = append(out, cloud.Excluded{PCIAddress: at.String(), Vendor: pciIDs(x.Vendor), Device: pciIDs(x.Device), Reason: cut(x.Reason, messageBytes)})
	}
	return out
}

// partitionsSaid are the sets of cards behind NVSwitches that a VM can get.
func partitionsSaid(r nodewire.Report) []cloud.Partition {
	out := make([]cloud.Partition, len(r.Partitions))
	for i, p := range r.Partitions {
		out[i] = cloud.Partition(p)
	}
	return out
}

// cardsWanted is what the assignment says of cards.
func cardsWanted(list []postgres.AssignedCard) (out []nodewire.Card) {
	for _, c := range list {
		w := nodewire.Card{PCIAddress: c.PCIAddress, Mode: c.Mode, Shares: c.Shares, VGPUType: c.VGPUType, Recover: c.Recover}
		if mode, n, even := gpu.EvenOf(c.Geometry); even && mode == cloud.ModeShared && w.Shares == 0 {
			w.Shares = n // nobody wished for it: it stays as it is
		}
		for _, p := range c.Layout {
			w.Layout = append(w.Layout, nodewire.Place(p))
		}
		for _, f := range c.Faults {
			w.Faults = append(w.Faults, nodewire.Fault(f))
		}
		out = append(out, w)
	}
	return out
}

// ageless are incidents without what moves by itself.
func ageless(list []nodewire.Incident) []nodewire.Incident {
	out := slices.Clone(list)
	for i := range out {
		out[i].AgeSeconds = 0
	}
	return out
}
