// Command bare is what the agent is compared with: a plain program on the same
// libraries that looks at the same guests as often, and decides, keeps and reports
// nothing.
//
//	bare CONTAINERD-SOCKET NAMESPACE LIBVIRT-SOCKET
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/vishvananda/netlink"
	"libvirt.org/go/libvirtxml"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

// linked keeps what the agent needs only now and then from being left out of the
// program.
var linked = []any{nvml.Init, nvcdi.New, cdi.NewCache, netlink.LinkList, (*libvirtxml.Domain).Marshal, http.ListenAndServeTLS}

// The agent's own intervals: of its figures, and of looking at all guests.
const (
	figures = 5 * time.Second
	looks   = 2 // in figures
)

func run(ctx context.Context, args []string) error {
	if len(args) != 3 || len(linked) == 0 {
		return fmt.Errorf("the sockets of containerd and libvirt and a namespace are needed, not %q", args)
	}
	engine, err := client.New(args[0], client.WithDefaultNamespace(args[1]))
	if err != nil {
		return fmt.Errorf("open containerd: %w", err)
	}
	defer func() { _ = engine.Close() }()
	wire, err := net.Dial("unix", args[2])
	if err != nil {
		return fmt.Errorf("open libvirt: %w", err)
	}
	machines := golibvirt.NewWithDialer(dialed{wire})
	if err := machines.ConnectToURI(golibvirt.QEMUSystem); err != nil {
		return fmt.Errorf("open libvirt: %w", err)
	}
	tick := time.NewTicker(figures)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%looks == 0 {
			if _, err := engine.ContainerService().List(ctx); err != nil {
				return fmt.Errorf("list containers: %w", err)
			}
			if _, err := engine.TaskService().List(ctx, &tasks.ListTasksRequest{}); err != nil {
				return fmt.Errorf("list tasks: %w", err)
			}
			if _, _, err := machines.ConnectListAllDomains(1, 0); err != nil {
				return fmt.Errorf("list domains: %w", err)
			}
		}
		read(args[1])
		if n == 0 {
			fmt.Println("ready")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

type dialed struct{ net.Conn }

// Dial implements go-libvirt's dialer.
func (d dialed) Dial() (net.Conn, error) { return d.Conn, nil }

// read reads the counters of every guest's control group.
func read(namespace string) {
	for _, pattern := range []string{
		"%s/*/memory.current", "%s/*/memory.stat", "%s/*/cpu.stat", "%s/*/pids.current", // one hierarchy
		"memory/%s/*/memory.usage_in_bytes", "memory/%s/*/memory.stat", "cpuacct/%s/*/cpuacct.usage", "pids/%s/*/pids.current",
	} {
		files, _ := filepath.Glob("/sys/fs/cgroup/" + fmt.Sprintf(pattern, namespace))
		for _, f := range files {
			_, _ = os.ReadFile(f)
		}
	}
}
