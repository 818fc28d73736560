package libvirt

import (
	"context"
	"os"
	"syscall"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

// Stats implements hypervisor.Driver.
func (d *Driver) Stats(ctx context.Context, id string) (hypervisor.Stats, error) {
	h, err := d.lookup(ctx, id)
	if err != nil {
		return hypervisor.Stats{}, err
	}
	if !h.active() {
		return hypervisor.Stats{}, hypervisor.ErrNoGuest
	}
	s, err := call(ctx, d.conn, "read counters", func(lv *golibvirt.Libvirt) (hypervisor.Stats, error) {
		var s hypervisor.Stats
		_, _, memoryKiB, _, cpu, err := lv.DomainGetInfo(h.dom)
		if err != nil {
			return s, err
		}
		s.CPUNanoseconds, s.MemoryBytes = int64(cpu), int64(memoryKiB)<<10
		values, err := lv.DomainMemoryStats(h.dom, uint32(golibvirt.DomainMemoryStatNr), 0)
		if err != nil {
			return s, err
		}
		s.MemoryBytes = memoryInUse(values, s.MemoryBytes)
		return s, nil
	})
	if err != nil {
		return s, err
	}
	s.NetRxBytes, s.NetTxBytes, err = d.net.Counters(id)
	if info, serr := os.Stat(d.diskPath(id)); serr == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			s.DiskBytes = st.Blocks * 512
		}
	}
	return s, err
}

// memoryInUse is what the guest's balloon says that it needs; a guest without the
// balloon's driver counts by what QEMU holds of the host.
func memoryInUse(values []golibvirt.DomainMemoryStat, given int64) int64 {
	kib := map[golibvirt.DomainMemoryStatTags]int64{}
	for _, v := range values {
		kib[golibvirt.DomainMemoryStatTags(v.Tag)] = int64(v.Val)
	}
	if free, ok := kib[golibvirt.DomainMemoryStatUsable]; ok {
		return max(0, kib[golibvirt.DomainMemoryStatAvailable]-free) << 10
	}
	if rss, ok := kib[golibvirt.DomainMemoryStatRss]; ok {
		return min(given, rss<<10)
	}
	return given
}
