package containerd

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

func TestGuestLife(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	img := c.push(t, v1.Config{Env: []string{"FROM_IMAGE=yes"}, Cmd: []string{"sleep", "1000"}})
	s := spec("inst_life", img)
	s.Env = map[string]string{"COLOUR": "blue"}
	s.CDIDevices = []string{c.grant(t, "a", 40)}
	begin := time.Now()
	g := c.start(t, s)
	t.Logf("prepared and started in %s", time.Since(begin))
	if g.State != hypervisor.Running || g.PID == 0 || g.Address == "" {
		t.Fatalf("guest after start: %+v", g)
	}
	out, code := c.sh(t, s.ID, "id; env; hostname; cat /etc/hosts /etc/resolv.conf; ls -la /dev /; cat /proc/self/uid_map /proc/self/cgroup; mount; ip addr")
	t.Log(out, code)
	if !strings.Contains(out, "uid=0") {
		t.Error("not root inside")
	}
}
