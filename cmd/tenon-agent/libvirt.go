package main

import (
	"log/slog"

	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/hypervisor/libvirt"
	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/network"
)

func libvirtConfig(c config) libvirt.Config {
	return libvirt.Config{CloudID: c.cloudID, StateDir: c.engineDir, RunDir: c.runDir, HugePages: c.hugePages}
}

// openLibvirt makes the driver of VMs. A node whose libvirt is missing or down
// works on without them, and says so.
func openLibvirt(c config, door *agent.RemoteDoor, net *network.Network, log *slog.Logger) (*libvirt.Driver, error) {
	cfg := libvirtConfig(c)
	cfg.Network, cfg.Logger = net, log
	cfg.Image = image.Config{
		Embedded: func() (image.Endpoint, error) { return image.Endpoint{URL: door.URL(), TLS: door.TLS()}, nil },
		Room:     func() int64 { return room(c.engineDir) },
	}
	return libvirt.New(cfg)
}
