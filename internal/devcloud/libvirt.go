package devcloud

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor/libvirt"
)

// startLibvirt starts the node's private libvirt. A host without it still makes
// containers: that is said, and is no failure.
func (s *Supervisor) startLibvirt(ctx context.Context, o Options) error {
	for _, name := range libvirt.Daemons {
		service, err := s.libvirtService(o, name)
		if err != nil {
			s.Console.Step("libvirt")(fmt.Sprintf("there are no virtual machines: %v", err))
			return nil //nolint:nilerr // said above
		}
		if err := s.start(ctx, name, service); err != nil {
			return err
		}
	}
	return nil
}

func (s *Supervisor) libvirtService(o Options, name string) (Service, error) {
	cfg := libvirt.Config{CloudID: s.ID, StateDir: filepath.Join(s.Folder(partNode), "containerd"), RunDir: s.Run}
	becomes, err := libvirt.DaemonArgv(cfg, name)
	if err != nil {
		return Service{}, err
	}
	socket := libvirt.SocketPath(s.Run)
	if name == "virtlogd" {
		socket = libvirt.LogSocketPath(s.Run)
	}
	return Service{
		Name: name, Argv: []string{o.agent(), name, "-state-dir", s.Folder(partNode)}, Becomes: becomes,
		Env: append(s.nodeEnv(), virtEnv()...), StopSignal: syscall.SIGTERM, StopGrace: 5 * time.Second,
		Ready: answersOn(socket), ReadyIn: 60 * time.Second,
		Config: libvirt.DaemonConfigs(),
	}, nil
}

// virtEnv passes on what the person who runs the cloud says of KVM.
func virtEnv() []string {
	if v := os.Getenv("TENON_VIRT"); v != "" {
		return []string{"TENON_VIRT=" + v}
	}
	return nil
}
