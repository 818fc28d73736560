package containerd

import (
	"context"
	"fmt"
	"net"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

// Dial implements hypervisor.Dialer.
func (d *Driver) Dial(ctx context.Context, id string, port int) (net.Conn, error) {
	g, err := d.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if g.State != hypervisor.Running {
		return nil, fmt.Errorf("dial port of %s: it is %s: %w", id, g.State, hypervisor.ErrNoGuest)
	}
	return d.net.Dial(ctx, id, port)
}

// Cgroup implements hypervisor.Enclosed.
func (d *Driver) Cgroup(id string) string { return d.cgroupPath(id) }
