package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/imagebuild"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// debianDisk is the image that users get, built once for each recipe.
func debianDisk(t *testing.T) string {
	t.Helper()
	if os.Getenv("TENON_TEST_IMAGE") == "" {
		t.Skip("TENON_TEST_IMAGE is not set: the VM image is not built from Debian's archive")
	}
	needsLibvirt(t)
	folder, err := filepath.Abs("../../../bin/vm-image-cache")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, imagebuild.DebianVM.Recipe("bookworm")+".qcow2")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := imagebuild.BuildDisk(t.Context(), imagebuild.Options{Folder: folder}, path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the image was built in %s and has %d MiB", time.Since(began).Round(time.Second), info.Size()>>20)
	return path
}

// TestDebianBoots boots the image that users get, once, and asks of it all that
// needs a whole system. Emulated, that takes about a minute on an idle host.
func TestDebianBoots(t *testing.T) {
	disk := debianDisk(t)
	c := newCloud(t)
	version, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := c.spec(t, "inst_deb", c.pushDisk(t, disk))
	signer, public := key(t)
	spec.SSHKeys = []string{public}
	spec.HasUserData = true
	spec.Secrets = func(context.Context) (nodewire.Secrets, error) {
		return nodewire.Secrets{UserData: []byte("#cloud-config\nwrite_files:\n- path: /etc/theirs\n  content: theirs\nruncmd:\n- [touch, /run/theirs-ran]\n")}, nil
	}
	for _, gpu := range []string{"GPU-a", "GPU-b"} {
		spec.Devices = append(spec.Devices, nodewire.Device{GPUUUID: gpu, Mode: "whole", Profile: "whole", SlotEnd: 8})
		spec.Grants = append(spec.Grants, device.Grant{Emulated: true})
	}
	began := time.Now()
	g := c.start(t, spec)
	t.Logf("%s: started in %s", version, time.Since(began).Round(time.Millisecond))
	client := c.login(t, "inst_deb", signer, 8*time.Minute)
	t.Logf("SSH after %s", time.Since(began).Round(time.Second))

	for command, want := range map[string]string{
		"hostname":                        "inst-deb",
		"whoami":                          vmUser,
		"sudo -n id -u":                   "0",
		"cat /etc/theirs":                 "theirs",
		"lspci -n | grep -c 1234:11e8":    "2",
		"ip -4 -o addr show eth0":         g.Address,
		"df -m --output=size / | tail -1": "", // checked below
	} {
		got := strings.TrimSpace(shell(t, client, command))
		if !strings.Contains(got, want) {
			t.Errorf("%s says %q, want %q", command, got, want)
		}
		if strings.HasPrefix(command, "df") && (len(got) != 4 || got < "3500") {
			t.Errorf("a disk of %d MiB gives the guest %s MiB", spec.DiskMiB, got)
		}
	}
	if got := shell(t, client, "getent hosts deb.debian.org >/dev/null && echo resolved || cat /etc/resolv.conf"); !strings.Contains(got, "resolved") {
		t.Logf("names are not resolved here: %s", got) // the host may have no way out
	}

	// A second reader sees the kernel's first lines.
	port := c.join(t, "inst_deb")
	if history := expect(t, port, "login:"); !strings.Contains(history, "Linux version") {
		t.Errorf("the history lacks the kernel's first lines: %.300q", history)
	}

	// The power button is heeded within the grace.
	stopping := time.Now()
	off, err := c.Stop(t.Context(), "inst_deb", 120*time.Second)
	if err != nil || off.State != hypervisor.Exited || off.ExitCode != 0 {
		t.Errorf("stopped by its button it is %+v (%v)", off, err)
	}
	t.Logf("stopped by its power button in %s", time.Since(stopping).Round(100*time.Millisecond))
	if err := c.Remove(t.Context(), "inst_deb", true); err != nil {
		t.Fatal(err)
	}
	c.startsElsewhere(t, spec, g.Address, signer)
	c.nothingLeft(t, "inst_deb")
}

// startsElsewhere starts a machine again whose address has gone to another while
// it was off (its reservation is taken from it): its system, set up with the first
// one, must still be reached at what it is given now.
func (c *cloudUnderTest) startsElsewhere(t *testing.T, spec hypervisor.Spec, first string, signer ssh.Signer) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(c.state, "network", "reserved")); err != nil {
		t.Fatal(err)
	}
	if err := c.net.DetachVM(t.Context(), spec.ID); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.state, "network", "leases", "tenon-"+c.id, "last_reserved_ip.0")); err != nil {
		t.Fatal(err)
	}
	if other, err := c.net.AttachVM(t.Context(), "inst_other", t.TempDir()); err != nil || other.Address != first {
		t.Fatalf("another was to get %s, and has %s (%v)", first, other.Address, err)
	}
	spec.Epoch, spec.Devices, spec.Grants = 2, nil, nil
	began := time.Now()
	g := c.start(t, spec)
	if g.Address == first {
		t.Fatalf("two machines have %s", first)
	}
	client := c.login(t, spec.ID, signer, 8*time.Minute)
	t.Logf("SSH at its new address %s (it was %s) after %s", g.Address, first, time.Since(began).Round(time.Second))
	if got := shell(t, client, "ip -4 -o addr show eth0"); !strings.Contains(got, g.Address) || strings.Contains(got, first) {
		t.Errorf("it has %q, want %s only", got, g.Address)
	}
	if _, err := c.Stop(t.Context(), spec.ID, 0); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{spec.ID, "inst_other"} {
		if err := c.Remove(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
	}
}
