package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tenon-cloud/tenon/internal/network"
)

// TestStartCostsLittleMoreThanByHand interleaves the driver's Prepare and Start
// with the same made by hand: subvolume and limit, namespace and CNI plugin,
// overlay, and `ctr run` of the very same spec.
func TestStartCostsLittleMoreThanByHand(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the comparison takes half a minute")
	}
	c := newCloud(t)
	if _, err := exec.LookPath("ctr"); err != nil {
		t.Skip("ctr is not installed")
	}
	ctx := context.Background()
	img := c.push(t, v1.Config{}, layer(t, entry{name: "second", body: "2"}))
	first := spec("inst_first", img, "sleep", "1000")
	c.start(t, first)
	held, err := c.client.LoadContainer(ctx, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	template, err := held.Spec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	lower := must(c.images.Ensure(ctx, img, nil)).Lower
	var ours, byHand, removals []time.Duration
	for i := range 30 {
		s := spec(fmt.Sprintf("inst_ours%d", i), img, "sleep", "1000")
		begin := time.Now()
		c.start(t, s)
		ours = append(ours, time.Since(begin))
		begin = time.Now()
		if err := c.Remove(ctx, s.ID, false); err != nil {
			t.Fatal(err)
		}
		removals = append(removals, time.Since(begin))

		id := fmt.Sprintf("hand%d", i)
		spec := *template
		spec.Hostname, spec.Root.Path = id, filepath.Join(c.run, id)
		spec.Linux.CgroupsPath = c.cgroupPath(id)
		for n := range spec.Linux.Namespaces {
			switch ns := &spec.Linux.Namespaces[n]; ns.Type {
			case "network":
				ns.Path = "/run/netns/" + c.id + id
			case "user":
				ns.Path = ""
			}
		}
		// A namespace of `ip netns` belongs to the host, which forbids a sysfs of it.
		spec.Mounts = slices.DeleteFunc(slices.Clone(template.Mounts), func(m specs.Mount) bool { return m.Destination == "/sys" })
		config := filepath.Join(c.state, id+".json")
		raw, _ := json.Marshal(spec)
		if err := os.WriteFile(config, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf(`set -e
btrfs subvolume create %[1]s/%[2]s >/dev/null
btrfs qgroup limit 64M %[1]s/%[2]s
mkdir -p %[1]s/%[2]s/upper/etc %[1]s/%[2]s/work %[4]s/%[2]s
touch %[1]s/%[2]s/upper/etc/hosts %[1]s/%[2]s/upper/etc/resolv.conf %[1]s/%[2]s/upper/etc/hostname
chown -R %[10]d %[1]s/%[2]s/upper
mount -t overlay overlay -o lowerdir=%[3]s,upperdir=%[1]s/%[2]s/upper,workdir=%[1]s/%[2]s/work %[4]s/%[2]s
ip netns add %[5]s%[2]s
echo '{"cniVersion":"1.0.0","name":"hand","type":"bridge","bridge":"%[6]s","ipam":{"type":"host-local","dataDir":"%[4]s/leases","subnet":"%[7]s"}}' |
  CNI_COMMAND=ADD CNI_CONTAINERID=%[2]s CNI_NETNS=/run/netns/%[5]s%[2]s CNI_IFNAME=eth0 CNI_PATH=/usr/lib/cni /usr/lib/cni/bridge >/dev/null
ctr -a %[8]s -n hand run -d --config %[9]s %[2]s`,
			c.disks.dir, id, strings.Join(lower, ":"), c.run, c.id, network.BridgeName(c.id), c.net.Subnet(), SocketPath(c.run), config, template.Linux.UIDMappings[0].HostID)
		begin = time.Now()
		out, err := exec.Command("sh", "-c", script).CombinedOutput()
		byHand = append(byHand, time.Since(begin))
		undo := fmt.Sprintf("ctr -a %[1]s -n hand task rm -f %[2]s; ctr -a %[1]s -n hand c rm %[2]s; ip netns del %[3]s%[2]s; umount %[4]s/%[2]s; btrfs subvolume delete %[5]s/%[2]s",
			SocketPath(c.run), id, c.id, c.run, c.disks.dir)
		_ = exec.Command("sh", "-c", undo).Run()
		if err != nil {
			t.Fatalf("by hand: %v: %s", err, out)
		}
	}
	a, b := median(ours), median(byHand)
	t.Logf("median of 30: ours %s, by hand %s, ratio %.2f; removal %s", a, b, float64(a)/float64(b), median(removals))
	if float64(a) > 1.5*float64(b) {
		t.Errorf("ours takes %s, by hand %s", a, b)
	}
}

func median(d []time.Duration) time.Duration {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return d[len(d)/2]
}
