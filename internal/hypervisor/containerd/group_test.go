package containerd

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestAGroupMeetsAndNobodyElse starts a group whose members know each other by name
// when they begin, beside a guest that is of no group and one of another.
func TestAGroupMeetsAndNobodyElse(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	img := c.push(t, v1.Config{})
	peers := []nodewire.Peer{{ID: "inst_g0", Epoch: 1, Name: "train-0"}, {ID: "inst_g1", Epoch: 1, Name: "train-1"}}
	outside := c.start(t, spec("inst_out", img, "sh", "-c", webServer))
	far := spec("inst_far", img, "sh", "-c", webServer)
	far.Group = "job_b"
	other := c.start(t, far)
	for _, p := range peers {
		s := spec(p.ID, img, "sh", "-c", webServer)
		s.Name, s.Group, s.Peers = p.Name, "job_a", peers
		if err := c.Prepare(context.Background(), s, nil); err != nil {
			t.Fatal(err)
		}
		if c.PeerAddress(p) == "" {
			t.Fatalf("%s has no address after it was prepared", p.Name)
		}
	}
	for _, p := range peers {
		s := spec(p.ID, img, "sh", "-c", webServer)
		s.Name, s.Group, s.Peers = p.Name, "job_a", peers
		c.start(t, s)
	}
	addresses := map[string]string{}
	for i, p := range peers {
		them := peers[1-i]
		at, _ := c.net.Lookup(p.ID)
		addresses[p.ID] = at.Address
		eventually(t, 10*time.Second, p.Name+" to load its peer's page by name", func() bool { return c.fetches(t, p.ID, them.Name) })
		for what, address := range map[string]string{"a guest of no group": outside.Address, "a guest of another group": other.Address} {
			if c.fetches(t, p.ID, address) {
				t.Errorf("%s reached %s", p.Name, what)
			}
			if out, code := c.sh(t, p.ID, "ping -c 1 -W 1 "+address); code == 0 {
				t.Errorf("%s pinged %s: %s", p.Name, what, out)
			}
		}
	}
	for _, id := range []string{outside.ID, other.ID} {
		if c.fetches(t, id, addresses["inst_g0"]) {
			t.Errorf("%s reached into the group", id)
		}
	}
	// What others take away is put back, with the group's ways.
	if err := c.net.Up(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !c.fetches(t, "inst_g1", "train-0") {
		t.Error("they are apart after the network was put right")
	}
	if err := c.Remove(context.Background(), "inst_g1", false); err != nil {
		t.Fatal(err)
	}
	late := spec("inst_late", img, "sh", "-c", webServer) // it may get the address that is free now
	c.start(t, late)
	if c.fetches(t, late.ID, addresses["inst_g0"]) || c.fetches(t, "inst_g0", addresses["inst_g1"]) {
		t.Error("who came after a member is taken for one")
	}
	if out, _ := c.sh(t, "inst_g0", "cat /etc/hosts"); !strings.Contains(out, "train-1") {
		t.Errorf("its hosts are %s", out)
	}
}
