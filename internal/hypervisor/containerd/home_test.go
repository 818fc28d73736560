package containerd

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// notebook is a guest of the user app with a home of its own.
func notebook(t *testing.T, c *cloudUnderTest, id string, img nodewire.Image, v nodewire.Volume, command ...string) hypervisor.Spec {
	t.Helper()
	folder, err := volume.NewStore(c.disks.pool).Ensure(context.Background(), v)
	if err != nil {
		t.Fatal(err)
	}
	s := spec(id, img, command...)
	s.Kind = "notebook"
	s.Mounts = []nodewire.Mount{{VolumeID: v.ID, Role: volume.RoleHome, Path: "/home/app"}}
	s.Folders = map[string]string{v.ID: folder}
	return s
}

func TestHomeOutlivesItsGuestAndKeepsToItsSize(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	img := c.push(t, v1.Config{User: "app"}, layer(t, entry{name: "home/", kind: '5'}, entry{name: "home/app/", kind: '5', mode: 0o700, owner: 1000}))
	v := nodewire.Volume{ID: "vol_home", OrgID: "org-1", Role: volume.RoleHome, SizeMiB: 32}
	s := notebook(t, c, "inst_nb", img, v, "sleep", "1000")
	c.start(t, s)
	if out, code := c.sh(t, s.ID, "echo kept >~/file; HOME=/home/app; echo kept >/home/app/file && stat -c '%u %g %a' /home/app /home/app/file"); code != 0 || out != "1000 1000 700\n1000 1000 644\n" {
		t.Fatalf("the user writes into its home: exit code %d\n%s", code, out)
	}
	out, code := c.sh(t, s.ID, "dd if=/dev/zero of=/home/app/big bs=1M count=64; stat -c %s /home/app/big")
	fields := strings.Fields(out)
	if wrote, _ := strconv.Atoi(fields[len(fields)-1]); wrote == 0 || wrote > 33<<20 || !strings.Contains(out, "uota") {
		t.Errorf("64 MiB to a home of 32: exit code %d, %s", code, out)
	}
	if out, code := c.sh(t, s.ID, "rm /home/app/big"); code != 0 {
		t.Errorf("the user can't make room again: %s", out)
	}

	// A subvolume would be outside the limit.
	program := filepath.Join(t.TempDir(), "subvolume")
	build := exec.Command("go", "build", "-o", program, "./testdata/subvolume")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	body, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Folders[v.ID], "subvolume"), body, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, _ := c.sh(t, s.ID, "/home/app/subvolume /home/app </dev/null; ls /home/app"); !strings.Contains(out, "0x5000940e: 1\n0x15000940e: 1\nterminal size: 25\n") || strings.Contains(out, "escape") {
		t.Errorf("btrfs's own requests from inside (1 is EPERM, 25 ENOTTY):\n%s", out)
	}

	// The data belongs to no id range: another organisation's guest sees the same owners.
	ctx := context.Background()
	if _, err := c.Stop(ctx, s.ID, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(ctx, s.ID, false); err != nil {
		t.Fatal(err)
	}
	c.assertNothingLeft(t, s.ID)
	if left, err := mountsBelow(viewsDir(c.cfg)); err != nil || len(left) > 0 {
		t.Errorf("views left: %v, %v", left, err)
	}
	s2 := notebook(t, c, "inst_nb", img, v, "sleep", "1000")
	s2.Epoch, s2.OrgID = 2, "org-2"
	c.start(t, s2)
	if out, _ := c.sh(t, s2.ID, "cat /home/app/file; stat -c %u /home/app/file"); out != "kept\n1000\n" {
		t.Errorf("after another start: %q", out)
	}
}

// TestPurgeKeepsVolumes: a cloud that is stopped keeps its data, whatever it
// takes from the host.
func TestPurgeKeepsVolumes(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	ctx := context.Background()
	store := volume.NewStore(c.disks.pool)
	v := nodewire.Volume{ID: "vol_kept", OrgID: "org-1", Role: volume.RoleHome, SizeMiB: 16}
	folder, err := store.Ensure(ctx, v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "file"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.disks.create(ctx, "inst_layer", 16, 0); err != nil {
		t.Fatal(err)
	}
	cfg := c.cfg
	if err := Purge(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if c.disks.pool.Mounted() {
		t.Fatal("the pool is still mounted")
	}
	if _, err := store.Ensure(ctx, v); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(folder, "file")); err != nil || string(raw) != "kept" {
		t.Errorf("the volume's file: %q, %v", raw, err)
	}
	if left := c.disks.list(); len(left) > 0 {
		t.Errorf("writable layers outlived their pool's mount: %v", left)
	}
}

func TestDialReachesTheGuestsLoopbackAlone(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_port", c.push(t, v1.Config{}), "sh", "-c", "mkdir /w; echo inside >/w/index.html; httpd -p 127.0.0.1:8888 -h /w; httpd -p '[::1]:8889' -h /w; sleep 1000")
	c.start(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, port := range []int{8888, 8889} {
		var answer string
		eventually(t, 10*time.Second, "the guest's server", func() bool {
			conn, err := c.Dial(ctx, s.ID, port)
			if err != nil {
				return false
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
			raw, _ := io.ReadAll(conn)
			answer = string(raw)
			return true
		})
		if !strings.HasSuffix(answer, "inside\n") {
			t.Errorf("port %d answered %q", port, answer)
		}
	}
	// The host listens on its own loopback; the guest's is another.
	ln := listenOnHost(t)
	if conn, err := c.Dial(ctx, s.ID, ln); err == nil {
		conn.Close()
		t.Error("a port of the host was reached")
	}
	for _, port := range []int{0, -1, 65536, 1} {
		if conn, err := c.Dial(ctx, s.ID, port); err == nil {
			conn.Close()
			t.Errorf("port %d was reached", port)
		}
	}
	if _, err := c.Dial(ctx, "inst_other", 8888); !isNoGuest(err) {
		t.Errorf("a guest that is not there: %v", err)
	}
}
