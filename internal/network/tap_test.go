package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTap is the machine's end of a tap.
func openTap(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// answered asks for the gateway's MAC as somebody, and says whether it answered.
func answered(t *testing.T, tap *os.File, as net.HardwareAddr, from, gateway netip.Addr, limit time.Duration) bool {
	t.Helper()
	frame := bytes.Join([][]byte{
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, as, {8, 6},
		{0, 1, 8, 0, 6, 4, 0, 1}, as, from.AsSlice(), make([]byte, 6), gateway.AsSlice(), make([]byte, 18),
	}, nil)
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		if _, err := tap.Write(frame); err != nil {
			t.Fatal(err)
		}
		_ = tap.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		buf := make([]byte, 2048)
		for {
			n, err := tap.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if n >= 42 && buf[12] == 8 && buf[13] == 6 && buf[21] == 2 && bytes.Equal(buf[28:32], gateway.AsSlice()) {
				return true
			}
		}
	}
	return false
}

func TestMachinesAreHeldToTheirAddress(t *testing.T) {
	n := upForVMs(t)
	a, err := n.AttachVM(t.Context(), "inst_a", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.AttachVM(t.Context(), "inst_b", t.TempDir())
	if err != nil || b.Address == a.Address || b.MAC == a.MAC || b.Port == a.Port {
		t.Fatalf("two machines got %+v and %+v (%v)", a, b, err)
	}
	if again, err := n.AttachVM(t.Context(), "inst_a", t.TempDir()); err != nil || again != a {
		t.Errorf("attached again it is %+v (%v), not %+v", again, err, a)
	}
	// A firewall that is written anew, as after a restart, must still know them.
	if err := n.applyFirewall(t.Context()); err != nil {
		t.Fatal(err)
	}
	mac, err := net.ParseMAC(a.MAC)
	if err != nil {
		t.Fatal(err)
	}
	own, other := netip.MustParseAddr(a.Address), netip.MustParseAddr(b.Address)
	tap := openTap(t, a.Port)
	if !answered(t, tap, mac, own, n.Gateway(), 5*time.Second) {
		t.Error("the gateway does not answer the machine")
	}
	if answered(t, tap, mac, other, n.Gateway(), 600*time.Millisecond) {
		t.Error("the machine passed for another's address")
	}
	if answered(t, tap, net.HardwareAddr{2, 0x76, 1, 2, 3, 4}, own, n.Gateway(), 600*time.Millisecond) {
		t.Error("the machine passed for another's MAC")
	}
	_ = tap.Close()
	for _, id := range []string{"inst_a", "inst_b", "inst_a"} {
		if err := n.DetachVM(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if left := n.AttachedVMs(); len(left) > 0 {
		t.Errorf("still attached: %v", left)
	}
	if _, err := net.InterfaceByName(a.Port); err == nil {
		t.Error("its tap is left")
	}
}

func upForVMs(t *testing.T) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: taps can't be made")
	}
	for _, program := range []string{"nft", "dnsmasq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	n, err := New(Config{CloudID: fmt.Sprintf("%08x", rand.Uint32()), StateDir: t.TempDir(), RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Down(context.Background()); err != nil {
			t.Errorf("down: %v", err)
		}
	})
	if err := n.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAnAddressIsKeptWithTheDisk through stops, through others that come, and
// through the network's own end, and is free again when the disk is gone.
func TestAnAddressIsKeptWithTheDisk(t *testing.T) {
	n := upForVMs(t)
	disk := filepath.Join(t.TempDir(), "vol_a")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := n.AttachVM(t.Context(), "inst_a", disk)
	if err != nil {
		t.Fatal(err)
	}
	for name, between := range map[string]func() error{
		"a stop":                func() error { return nil },
		"the network's own end": func() error { return errors.Join(n.Down(t.Context()), n.Up(t.Context())) },
		"a reboot, after which the disks come late": func() error {
			return errors.Join(n.Down(t.Context()), os.Rename(disk, disk+".away"), n.Up(t.Context()), os.Rename(disk+".away", disk))
		},
	} {
		if err := n.DetachVM(t.Context(), "inst_a"); err != nil {
			t.Fatal(err)
		}
		if err := between(); err != nil {
			t.Fatal(err)
		}
		// The pool is told to begin where it would give the same address.
		last := filepath.Join(n.leaseDir(), n.cniNetwork(), "last_reserved_ip.0")
		if err := os.RemoveAll(last); err != nil {
			t.Fatal(err)
		}
		other, err := n.AttachVM(t.Context(), "inst_b", t.TempDir())
		if err != nil || other.Address == first.Address {
			t.Fatalf("after %s another got %s (%v)", name, other.Address, err)
		}
		again, err := n.AttachVM(t.Context(), "inst_a", disk)
		if err != nil || again != first {
			t.Fatalf("after %s it is %+v (%v), not %+v", name, again, err, first)
		}
	}
	if err := errors.Join(n.DetachVM(t.Context(), "inst_a"), os.Remove(disk)); err != nil {
		t.Fatal(err)
	}
	if next, err := n.AttachVM(t.Context(), "inst_c", t.TempDir()); err != nil || next.Address != first.Address {
		t.Errorf("once the disk is gone another gets %s (%v), not %s", next.Address, err, first.Address)
	}
}
