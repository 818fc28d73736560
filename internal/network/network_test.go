package network

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestChosenSubnetIsFreeAndStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[0-9a-f]{8}`).Draw(t, "cloud id")
		var taken []netip.Prefix
		for range rapid.IntRange(0, 20).Draw(t, "routes") {
			raw := rapid.Uint32().Draw(t, "address")
			addr := netip.AddrFrom4([4]byte{byte(raw >> 24), byte(raw >> 16), byte(raw >> 8), byte(raw)})
			taken = append(taken, netip.PrefixFrom(addr, rapid.IntRange(8, 32).Draw(t, "bits")).Masked())
		}
		got, err := chooseSubnet(id, taken)
		if err != nil {
			t.Skip("everything is taken")
		}
		if overlaps(got, taken) || got.Bits() != subnetBits || !got.Addr().IsPrivate() && !pools[3].Contains(got.Addr()) {
			t.Fatalf("%s of %v", got, taken)
		}
		if again, _ := chooseSubnet(id, taken); again != got {
			t.Fatalf("%s, then %s", got, again)
		}
		if next, err := chooseSubnet(id, append(taken, got)); err == nil && next.Overlaps(got) {
			t.Fatalf("a second cloud got %s beside %s", next, got)
		}
	})
}

func TestSubnetFallsThroughToTheNextPool(t *testing.T) {
	t.Parallel()
	got, err := chooseSubnet("0a1b2c3d", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	if err != nil || !pools[1].Contains(got.Addr()) {
		t.Errorf("beside 10/8: %s, %v", got, err)
	}
	if _, err := chooseSubnet("0a1b2c3d", []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}); err == nil {
		t.Error("a subnet was chosen where everything is routed")
	}
}

func TestBridgeNameFitsAnInterface(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "0a1b2c3d", "0a1b2c3d4e5f67890a1b2c3d"} {
		if name := BridgeName(id); len(name) > 15 || !strings.HasPrefix(name, "tn"+id[:1]) {
			t.Errorf("bridge of %q is %q", id, name)
		}
	}
}

func TestAttachmentsAreWholeOrMadeAnew(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not root: a bridge can't be made")
	}
	for _, program := range []string{"nft", "dnsmasq", "/usr/lib/cni/bridge"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	n, err := New(Config{CloudID: fmt.Sprintf("%08x", rand.Uint32()), StateDir: t.TempDir(), RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	forwarding := readSysctl("ipv4", "", "ip_forward")
	if err := n.Up(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ids := IDRange{Base: 3_000_000_000, Size: 65_536}
	first, err := n.Attach(ctx, "inst_1", ids)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := n.Attach(ctx, "inst_1", ids); err != nil || again != first {
		t.Errorf("a second attach: %+v, %v", again, err)
	}
	if got := readSysctl("ipv4", "", "ip_forward"); got != forwarding {
		t.Errorf("the host's own forwarding went from %s to %s", forwarding, got)
	}
	// A crash, or a reboot with a run folder on disk: the file says more than is there.
	if err := removeNamespaces(n.nsDir() + "/inst_1"); err != nil {
		t.Fatal(err)
	}
	if _, ok := n.Lookup("inst_1"); ok {
		t.Error("an attachment without its namespace counts as whole")
	}
	second, err := n.Attach(ctx, "inst_1", ids)
	if err != nil || !isNamespace(second.NetNS) || !isNamespace(second.UserNS) {
		t.Fatalf("attach after a crash: %+v, %v", second, err)
	}
	other, err := n.Attach(ctx, "inst_2", IDRange{})
	if err != nil || other.UserNS != "" || other.Address == second.Address {
		t.Errorf("a guest without a user namespace: %+v, %v", other, err)
	}
	for range 2 {
		if err := n.Detach(ctx, "inst_1"); err != nil {
			t.Error(err)
		}
	}
	if got := n.Attached(); len(got) != 1 || got[0] != "inst_2" {
		t.Errorf("attached: %v", got)
	}
	// A restarted agent finds the same network and adopts its parts.
	n.Close()
	pid := n.dnsPID()
	if n, err = New(n.cfg); err != nil {
		t.Fatal(err)
	}
	if err := n.Up(ctx); err != nil {
		t.Fatal(err)
	}
	if pid == 0 || n.dnsPID() != pid {
		t.Errorf("the forwarder %d was replaced by %d", pid, n.dnsPID())
	}
	if a, ok := n.Lookup("inst_2"); !ok || a.Address != other.Address {
		t.Errorf("attachment after a restart: %+v", a)
	}
}
