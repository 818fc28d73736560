package network

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// Whatever somebody else takes away is there again when the network is asked for,
// as before each start.
func TestWhatOthersTakeAwayIsPutBack(t *testing.T) {
	if _, err := os.Stat("/usr/lib/cni/bridge"); err != nil {
		t.Skip("the CNI plugins are not installed")
	}
	n := upForVMs(t)
	vm, err := n.AttachVM(t.Context(), "inst_a", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	box, err := n.Attach(t.Context(), "inst_b", IDRange{})
	if err != nil {
		t.Fatal(err)
	}
	tap := openTap(t, vm.Port)
	mac, err := net.ParseMAC(vm.MAC)
	if err != nil {
		t.Fatal(err)
	}
	own, other := netip.MustParseAddr(vm.Address), netip.MustParseAddr(box.Address)
	table := n.tableName()
	for name, harm := range map[string]string{
		"the bridge is deleted":              "ip link del " + n.bridge,
		"the bridge is set down":             "ip link set " + n.bridge + " down",
		"the bridge loses its address":       "ip address flush dev " + n.bridge,
		"a port is taken off the bridge":     "ip link set " + vm.Port + " nomaster",
		"all tables are flushed":             "nft delete table inet " + table + "; nft delete table bridge " + table,
		"one table is deleted":               "nft delete table inet " + table,
		"the rules of one table are flushed": "nft flush table bridge " + table,
		"a rule is put before ours":          "nft insert rule inet " + table + " from_guest accept",
		"a guest is let go":                  "nft flush set bridge " + table + " ports",
	} {
		t.Run(name, func(t *testing.T) {
			shell(t, harm)
			if err := n.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !answered(t, tap, mac, own, n.Gateway(), 5*time.Second) {
				t.Error("the gateway does not answer the machine")
			}
			if answered(t, tap, mac, other, n.Gateway(), 400*time.Millisecond) {
				t.Error("the machine passed for another's address")
			}
			if rules := shell(t, "nft list table inet "+table); strings.Count(rules, "drop") < 6 || strings.Contains(rules, "from_guest {\n\t\taccept") {
				t.Errorf("the rules are not what they were:\n%s", rules)
			}
			bridge, err := netlink.LinkByName(n.bridge)
			if err != nil {
				t.Fatal(err)
			}
			port, err := netlink.LinkByName(box.Port)
			if err != nil || port.Attrs().MasterIndex != bridge.Attrs().Index {
				t.Fatalf("the container's port is not on the bridge: %v", err)
			}
			if info, err := netlink.LinkGetProtinfo(port); err != nil || !info.Isolated {
				t.Errorf("the container's port is not kept apart: %+v, %v", info, err)
			}
			next, err := n.AttachVM(t.Context(), "inst_next", t.TempDir())
			if err != nil || next.Address == vm.Address || next.Address == box.Address {
				t.Errorf("the next machine: %+v, %v", next, err)
			}
			if err := n.DetachVM(t.Context(), "inst_next"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Nobody need ask for that.
func TestLostRulesAndForwarderComeBackByThemselves(t *testing.T) {
	n := upForVMs(t)
	there := func(what string, command ...string) {
		t.Helper()
		deadline := time.After(15 * time.Second)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for exec.Command(command[0], command[1:]...).Run() != nil || n.dnsPID() == 0 {
			select {
			case <-deadline:
				t.Fatalf("not in 15 s: %s", what)
			case <-tick.C:
			}
		}
	}
	shell(t, fmt.Sprintf("nft delete table inet %[1]s; nft delete table bridge %[1]s", n.tableName()))
	there("rules", "nft", "list", "table", "bridge", n.tableName())
	there("rules", "nft", "list", "table", "inet", n.tableName())
	shell(t, "ip link del "+n.bridge)
	there("bridge", "ip", "link", "show", n.bridge, "up")
	for _, try := range []string{"a first", "a second"} { // no repair without need
		before := n.dnsPID()
		if err := n.Up(t.Context()); err != nil || n.dnsPID() != before {
			t.Errorf("%s look at a network that stands: %v", try, err)
		}
	}
	// Where it can't be put right, that is said.
	shell(t, "ip link del "+n.bridge)
	t.Setenv("PATH", t.TempDir())
	shellAt(t, "/usr/sbin/nft", "delete", "table", "inet", n.tableName())
	if err := n.Up(t.Context()); err == nil {
		t.Error("a network without nft passes for right")
	}
}

func shell(t *testing.T, command string) string {
	t.Helper()
	return shellAt(t, "/bin/sh", "-ec", command)
}

func shellAt(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
