package nodeapi

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// What a node may say at most.
const (
	maxInstances = 20_000
	maxGPUs      = 64
	maxSlices    = 32
	maxSlots     = 32
	maxTypes     = 128 // vGPU types of a card
	maxOrphans   = 256
	maxPartition = 128 // of NVSwitches; a board of eight has 15
	maxDrivers   = 16
	maxVCPU      = 4096
	maxMemoryMiB = 64 << 20 // 64 TiB
	maxLastLines = 16 << 10
	maxText      = 500
	maxSeconds   = 10 * 365 * 24 * 3600
	maxExitCode  = math.MaxInt32
	maxVolumes   = 20_000
	maxLabels    = 32
	maxKinds     = 8
	maxCounted   = 100_000 // kernels and sessions of a notebook
)

var (
	guestStates = []string{
		nodewire.GuestPending, nodewire.GuestPulling, nodewire.GuestStarting, nodewire.GuestRunning,
		nodewire.GuestStopping, nodewire.GuestStopped, nodewire.GuestFailed, nodewire.GuestGone,
	}
	volumeStates = []string{nodewire.VolumePresent, nodewire.VolumeGone, nodewire.VolumeFailed}

	gpuStates  = []string{nodewire.GPUReady, nodewire.GPUCleaning, nodewire.GPUNeedsReset, nodewire.GPUQuarantined, nodewire.GPUUnhealthy, nodewire.GPUMissing, nodewire.GPUUnknown}
	gpuModes   = []string{"whole", "mig", "shared", "vgpu"}
	tokenForm  = regexp.MustCompile(`^[A-Za-z0-9_.:+/-]{1,100}$`)
	reasonForm = regexp.MustCompile(`^[a-z0-9_]{0,60}$`)
)

// clean cuts a report to size in place and drops what makes no sense, so that
// one bad entry costs itself and not the report. It says what it dropped.
func clean(r *nodewire.Report) (dropped []string) {
	drop := func(format string, args ...any) {
		dropped = append(dropped, clip(fmt.Sprintf(format, args...), maxText))
	}
	r.BootID, r.Agent, r.Era = text(r.BootID, 100), text(r.Agent, 100), text(r.Era, 64)
	r.VCPU, r.MemoryMiB = between(r.VCPU, 0, maxVCPU), between(r.MemoryMiB, 0, int64(maxMemoryMiB))
	r.Generation, r.Sequence = max(0, r.Generation), max(0, r.Sequence)

	if over := len(r.GPUs) - maxGPUs; over > 0 {
		drop("%d cards over the limit of %d", over, maxGPUs)
		r.GPUs = r.GPUs[:maxGPUs]
	}
	seen := map[string]bool{}
	for i := range r.GPUs {
		addresses(&r.GPUs[i])
	}
	r.GPUs = slices.DeleteFunc(r.GPUs, func(g nodewire.GPU) bool {
		bad := seen[g.UUID] || seen[g.PCIAddress] || !goodGPU(g)
		if bad {
			drop("card %q at %q", g.UUID, g.PCIAddress)
		}
		seen[g.UUID], seen[g.PCIAddress] = true, true
		return bad
	})
	for i := range r.GPUs {
		cleanGPU(&r.GPUs[i])
	}

	if over := len(r.Instances) - maxInstances; over > 0 {
		drop("%d instances over the limit of %d", over, maxInstances)
		r.Instances = r.Instances[:maxInstances]
	}
	ids := map[string]bool{}
	r.Instances = slices.DeleteFunc(r.Instances, func(i nodewire.InstanceReport) bool {
		bad := ids[i.ID] || !tokenForm.MatchString(i.ID) || i.Epoch < 0 || !slices.Contains(guestStates, i.State)
		if bad {
			drop("instance %q in state %q", i.ID, i.State)
		}
		ids[i.ID] = true
		return bad
	})
	for i := range r.Instances {
		cleanInstance(&r.Instances[i])
	}

	r.Orphans = r.Orphans[:min(len(r.Orphans), maxOrphans)]
	for i, o := range r.Orphans {
		r.Orphans[i] = nodewire.Orphan{Driver: text(o.Driver, 60), ID: text(o.ID, 200), What: text(o.What, maxText)}
	}
	drivers := map[string]string{}
	for k, v := range r.Drivers {
		if len(drivers) < maxDrivers {
			drivers[text(k, 60)] = text(v, maxText)
		}
	}
	r.Drivers = drivers
	cleanVolumes(r, drop)
	r.Excluded, r.Incidents = r.Excluded[:min(len(r.Excluded), maxOrphans)], r.Incidents[:min(len(r.Incidents), maxOrphans)]
	for i := range r.Excluded {
		x := &r.Excluded[i]
		x.PCIAddress, x.Vendor, x.Device, x.Reason = text(x.PCIAddress, 20), text(x.Vendor, 10), text(x.Device, 10), text(x.Reason, maxText)
	}
	r.Partitions = partitions(r.Partitions)
	for i := range r.Incidents {
		x := &r.Incidents[i]
		x.ID, x.Kind, x.Message, x.InstanceID, x.AgeSeconds = text(x.ID, 100), text(x.Kind, 60), text(x.Message, maxText), text(x.InstanceID, 64), seconds(x.AgeSeconds)
	}
	r.Kinds = slices.DeleteFunc(r.Kinds[:min(len(r.Kinds), maxKinds)], func(k string) bool { return !tokenForm.MatchString(k) })
	labels := map[string]string{}
	for k, v := range r.Labels {
		if len(labels) < maxLabels && tokenForm.MatchString(k) {
			labels[clip(k, 63)] = text(v, 200)
		}
	}
	r.Labels = labels
	return dropped
}

// addresses spells the card's and its neighbours' addresses as they are compared;
// a neighbour whose address is none is left out.
func addresses(g *nodewire.GPU) {
	if a, err := cloud.ParsePCIAddress(g.PCIAddress); err == nil {
		g.PCIAddress = a.String()
	}
	linked := g.NVLink[:0]
	for _, s := range g.NVLink[:min(len(g.NVLink), maxGPUs)] {
		if a, err := cloud.ParsePCIAddress(s); err == nil {
			linked = append(linked, a.String())
		}
	}
	g.NVLink = linked
}

// partitions are those that make sense, each once, their cards' addresses as they
// are compared.
func partitions(list []nodewire.Partition) (out []nodewire.Partition) {
	seen := map[int]bool{}
	for _, p := range list[:min(len(list), maxPartition)] {
		cards := make([]string, 0, len(p.GPUs))
		for _, s := range p.GPUs[:min(len(p.GPUs), maxGPUs)] {
			if a, err := cloud.ParsePCIAddress(s); err == nil && !slices.Contains(cards, a.String()) {
				cards = append(cards, a.String())
			}
		}
		if p.ID < 0 || p.ID > math.MaxInt32 || seen[p.ID] || len(cards) == 0 || len(cards) != len(p.GPUs) {
			continue // a part of a partition is none
		}
		seen[p.ID] = true
		slices.Sort(cards)
		out = append(out, nodewire.Partition{ID: p.ID, GPUs: cards, Foreign: p.Foreign})
	}
	return out
}

func goodGPU(g nodewire.GPU) bool {
	_, err := cloud.ParsePCIAddress(g.PCIAddress)
	return err == nil && tokenForm.MatchString(g.UUID) && tokenForm.MatchString(g.Model) && tokenForm.MatchString(g.Geometry) &&
		slices.Contains(gpuStates, g.State) && slices.Contains(gpuModes, g.Mode) && g.MemoryMiB > 0 && g.MemoryMiB <= maxMemoryMiB
}

func cleanGPU(g *nodewire.GPU) {
	g.Reason = text(g.Reason, maxText)
	g.Index, g.NUMANode = between(g.Index, 0, 1024), between(g.NUMANode, -1, 1024)
	// How a known model is cut is ours to know, but for the number of equal parts.
	if m, err := gpu.ModelByKey(g.Model); err == nil && !m.Takes(cloud.GPUMode(g.Mode), g.Geometry) {
		g.Geometry = m.Geometry
	}
	g.Wish, g.Driver = text(g.Wish, maxText), text(g.Driver, 60)
	g.Companions, g.Bundle = g.Companions[:min(len(g.Companions), maxGPUs)], g.Bundle[:min(len(g.Bundle), maxGPUs)]
	g.VGPUTypes = g.VGPUTypes[:min(len(g.VGPUTypes), maxTypes)]
	for i, t := range g.VGPUTypes {
		g.VGPUTypes[i] = nodewire.VGPU{Name: text(t.Name, 100), ID: text(t.ID, 60), Available: between(t.Available, 0, 1024), MemoryMiB: between(t.MemoryMiB, 0, maxMemoryMiB)}
	}
	g.Missing = slices.DeleteFunc(g.Missing[:min(len(g.Missing), maxSlices)], func(p nodewire.Place) bool {
		return !tokenForm.MatchString(p.Profile) || p.SlotStart < 0 || p.SlotEnd > maxSlots || p.SlotStart >= p.SlotEnd
	})
	g.Slices = slices.DeleteFunc(g.Slices[:min(len(g.Slices), maxSlices)], func(s nodewire.Slice) bool {
		return !tokenForm.MatchString(s.Profile) || s.SlotStart < 0 || s.SlotEnd > maxSlots || s.SlotStart >= s.SlotEnd
	})
	g.Profiles = slices.DeleteFunc(g.Profiles[:min(len(g.Profiles), maxSlices)], func(p nodewire.Profile) bool {
		return !tokenForm.MatchString(p.Profile) || p.MemoryMiB < 1 || p.MemoryMiB > g.MemoryMiB || p.SMs < 0 || p.SMs > 1<<16
	})
	for i := range g.Slices {
		g.Slices[i].UUID, g.Slices[i].Owner = text(g.Slices[i].UUID, 100), text(g.Slices[i].Owner, 100)
	}
}

func cleanInstance(i *nodewire.InstanceReport) {
	if !reasonForm.MatchString(i.Reason) {
		i.Reason = ""
	}
	i.Message, i.LastLines = text(i.Message, maxText), lastText(i.LastLines, maxLastLines)
	i.Generation = max(0, i.Generation)
	if i.Progress != nil {
		*i.Progress = between(*i.Progress, 0, 100)
	}
	if i.ExitCode != nil {
		*i.ExitCode = between(*i.ExitCode, -maxExitCode-1, maxExitCode)
	}
	if _, err := netip.ParseAddr(i.Address); err != nil {
		i.Address = ""
	}
	i.StateForSeconds, i.RanForSeconds = seconds(i.StateForSeconds), seconds(i.RanForSeconds)
	if a := i.Activity; a != nil {
		a.Kernels, a.Sessions = between(a.Kernels, 0, maxCounted), between(a.Sessions, 0, maxCounted)
		a.BusyKernels, a.QuietSeconds = between(a.BusyKernels, 0, a.Kernels), seconds(a.QuietSeconds)
		if a.GPUPercent != nil {
			if math.IsNaN(*a.GPUPercent) {
				i.Activity = nil // nothing is known then
				return
			}
			*a.GPUPercent = between(*a.GPUPercent, 0, 100)
		}
	}
}

func cleanVolumes(r *nodewire.Report, drop func(string, ...any)) {
	if over := len(r.Volumes) - maxVolumes; over > 0 {
		drop("%d volumes over the limit of %d", over, maxVolumes)
		r.Volumes = r.Volumes[:maxVolumes]
	}
	seen := map[string]bool{}
	r.Volumes = slices.DeleteFunc(r.Volumes, func(v nodewire.VolumeReport) bool {
		bad := seen[v.ID] || !tokenForm.MatchString(v.ID) || !slices.Contains(volumeStates, v.State)
		if bad {
			drop("volume %q in state %q", v.ID, v.State)
		}
		seen[v.ID] = true
		return bad
	})
	for i := range r.Volumes {
		v := &r.Volumes[i]
		v.UsedMiB, v.Message = between(v.UsedMiB, 0, int64(maxMemoryMiB)), text(v.Message, maxText)
	}
}

func seconds(s float64) float64 {
	if math.IsNaN(s) {
		return 0
	}
	return between(s, 0, maxSeconds)
}

func between[T int | int64 | float64](v, low, high T) T { return min(max(v, low), high) }

// text makes a string that Postgres takes and a person can read.
func text(s string, n int) string {
	return clip(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", ""), n)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// lastText keeps the end of a long text, from a line's beginning.
func lastText(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[len(s)-n:], "")
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
		s = s[i+1:]
	}
	return s
}
