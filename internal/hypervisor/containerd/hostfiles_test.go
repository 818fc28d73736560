package containerd

import (
	"archive/tar"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/device"
)

// TestNothingWritableLiesOutsideTheDisk: what a guest writes anywhere counts
// towards its disk, or towards its memory.
func TestNothingWritableLiesOutsideTheDisk(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_files", c.push(t, v1.Config{}), "sleep", "1000")
	s.Grants = []device.Grant{{CDI: c.grant(t, "files", 40)}}
	s.MemoryMiB = 160
	g := c.start(t, s)

	out, _ := c.sh(t, s.ID, "cd /etc; for f in hosts resolv.conf hostname; do dd if=/dev/zero of=$f bs=1M count=40; done; stat -c 'size %s' hosts resolv.conf hostname")
	var wrote int
	for _, size := range strings.Split(out, "size ")[1:] {
		n, _ := strconv.Atoi(strings.Fields(size)[0])
		wrote += n
	}
	if wrote < 32<<20 || wrote > 64<<20 || !strings.Contains(out, "uota") {
		t.Errorf("%d of 120 MiB went to the files of a guest with a disk of 64: %s", wrote, out)
	}
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(g.PID), "mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		before, after, _ := strings.Cut(line, " - ")
		options, kind := strings.Fields(before), strings.Fields(after)[0]
		switch kind {
		case "overlay": // the disk
		case "tmpfs": // the guest's memory
		case "proc", "devpts", "mqueue", "devtmpfs": // the kernel's own; of the last only null, zero and their like
		default:
			if strings.HasPrefix(options[5], "rw") {
				t.Errorf("%s is writable and counted nowhere: %s", options[4], line)
			}
		}
	}
	out, _ = c.sh(t, s.ID, "cat /proc/self/mountinfo")
	for _, part := range []string{c.state, c.run, strings.TrimPrefix(c.run, "/run"), "guests"} {
		if strings.Contains(out, part) {
			t.Errorf("the host's %q is visible inside:\n%s", part, out)
		}
	}
	// What lies in a memory file system is charged to the guest's memory.
	before := must(c.Stats(context.Background(), s.ID))
	out, _ = c.sh(t, s.ID, "for d in /dev /dev/shm; do dd if=/dev/zero of=$d/zeros bs=1M count=30; done")
	after := must(c.Stats(context.Background(), s.ID))
	if grew := after.MemoryBytes - before.MemoryBytes; grew < 55<<20 {
		t.Errorf("60 MiB of memory files count as %d bytes: %s", grew, out)
	}
	if out, code := c.sh(t, s.ID, "for i in $(seq 1 20); do dd if=/dev/zero of=/dev/mqueue/$i bs=1M count=10 || exit 1; done"); code == 0 {
		t.Errorf("200 MiB of message queues: %s", out)
	}
}

func TestHostFilesReplaceTheImages(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	outside := filepath.Join(c.state, "outside")
	if err := os.WriteFile(outside, []byte("the host's"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := spec("inst_links", c.push(t, v1.Config{}, layer(t,
		entry{name: "etc/resolv.conf", kind: tar.TypeSymlink, link: "../run/systemd/resolve/stub-resolv.conf"},
		entry{name: "etc/hosts", kind: tar.TypeSymlink, link: outside},
		entry{name: "etc/hostname/", kind: tar.TypeDir}, entry{name: "etc/hostname/x", body: "x"},
	)), "sleep", "1000")
	g := c.start(t, s)
	check := func() {
		t.Helper()
		out, _ := c.sh(t, s.ID, "cat /etc/hostname /etc/hosts; grep -c nameserver /etc/resolv.conf; stat -c '%u %g %a %F' /etc/hosts /etc/resolv.conf /etc/hostname /etc")
		want := "web-1\n127.0.0.1\tlocalhost\n" + g.Address + "\tweb-1\n1\n" + strings.Repeat("0 0 644 regular file\n", 3) + "0 0 755 directory\n"
		if out != want {
			t.Errorf("host files:\n%s\nwant\n%s", out, want)
		}
	}
	check()
	if raw, err := os.ReadFile(outside); err != nil || string(raw) != "the host's" {
		t.Errorf("a link of the image led to the host: %q, %v", raw, err)
	}
	if out, code := c.sh(t, s.ID, "echo 10.9.9.9 peer >>/etc/hosts && mv /etc/hosts /etc/hosts.old"); code != 0 {
		t.Errorf("the guest's root can't change its files: %s", out)
	}
	// A restart is a new placement: the files say where it is now.
	s.Generation = 2
	g = c.start(t, s)
	check()
}
