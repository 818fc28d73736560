package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestSharesAreEqualAndTold(t *testing.T) {
	t.Parallel()
	c := nodewire.GPU{PCIAddress: card, MemoryMiB: 46068}
	for n := 2; n <= 8; n++ {
		var sum int64
		for i := range n {
			s, err := host.ShareOf(c, n, nodewire.Device{Mode: "shared", Profile: "share", SlotStart: i, SlotEnd: i + 1})
			if err != nil || s.Index != i || s.Of != n || !slices.Contains(s.Env, "TENON_GPU_SHARES="+string(rune('0'+n))) {
				t.Errorf("share %d of %d: %+v, %v", i, n, s, err)
			}
			sum += s.MemoryMiB
		}
		if sum > c.MemoryMiB || sum < c.MemoryMiB-int64(n) {
			t.Errorf("%d shares have %d MiB of %d", n, sum, c.MemoryMiB)
		}
	}
	for _, bad := range []struct {
		n int
		d nodewire.Device
	}{
		{4, nodewire.Device{Mode: "shared", Profile: "share", SlotStart: 4, SlotEnd: 5}},
		{4, nodewire.Device{Mode: "shared", Profile: "share", SlotStart: -1, SlotEnd: 0}},
		{4, nodewire.Device{Mode: "shared", Profile: "share", SlotStart: 0, SlotEnd: 2}},
		{4, nodewire.Device{Mode: "shared", Profile: "whole", SlotStart: 0, SlotEnd: 1}},
		{4, nodewire.Device{Mode: "whole", Profile: "share", SlotStart: 0, SlotEnd: 1}},
		{1, nodewire.Device{Mode: "shared", Profile: "share", SlotStart: 0, SlotEnd: 1}},
		{9, nodewire.Device{Mode: "shared", Profile: "share", SlotStart: 0, SlotEnd: 1}},
	} {
		if s, err := host.ShareOf(c, bad.n, bad.d); err == nil {
			t.Errorf("%d shares, %+v: %+v", bad.n, bad.d, s)
		}
	}
}

func TestSharesChangeOnlyWhileIdle(t *testing.T) {
	t.Parallel()
	used := host.DriverCard{Processes: []host.Process{{PID: 7, Command: "python"}}}
	if why := host.SharesMayChange(0, host.DriverCard{}); why != "" {
		t.Error(why)
	}
	if why := host.SharesMayChange(2, host.DriverCard{}); !strings.Contains(why, "2 of its shares are held") {
		t.Error(why)
	}
	if why := host.SharesMayChange(0, used); !strings.Contains(why, "python (process 7)") {
		t.Error(why)
	}
}
