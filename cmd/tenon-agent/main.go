// Command tenon-agent makes a machine a node of a Tenon cloud.
//
//	tenon-agent [run] [flags]   take assignments and make this node so
//	tenon-agent check [-json] [flags]   say whether this machine can be a node, and how to mend what it can't
//	tenon-agent purge [flags]   end and remove everything that this cloud runs here
//	tenon-agent virtlogd|libvirtd [flags]   become this node's private libvirt daemon, in a mount namespace of its own
//	tenon-agent watchdog [flags]   end what may not run without contact when the agent can't
//	tenon-agent containerd-config [flags]   print the configuration of this node's containerd
//	tenon-agent fleet [flags]   run simulated nodes, which book resources and run nothing
//	tenon-agent version
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tenon-cloud/tenon/internal/hypervisor/containerd"
	"github.com/tenon-cloud/tenon/internal/hypervisor/libvirt"
)

// version is set by the build.
var version = "development"

func main() {
	// Guests' log writers are this program too; they must not wait for anything.
	if len(os.Args) == 3 && os.Args[1] == containerd.LogWriterCommand {
		exit(containerd.LogWriter(os.Args[2]))
	}
	command, args := "run", os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch command {
	case "version":
		fmt.Println("tenon-agent", version)
	case "check":
		exit(check(ctx, args, os.Getenv, os.Stdout))
	case "run", "purge", "containerd-config", "watchdog", "virtlogd", "libvirtd":
		cfg, err := readConfig(args, os.Getenv)
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		if err != nil {
			exit(err)
		}
		switch command {
		case "containerd-config":
			fmt.Print(containerd.DaemonConfig(cfg.engineDir, cfg.runDir))
			exit(nil)
		case "purge":
			exit(purge(ctx, cfg))
		case "watchdog":
			exit(watch(ctx, cfg))
		case "virtlogd", "libvirtd":
			exit(libvirt.RunDaemon(libvirtConfig(cfg), command))
		}
		exit(run(ctx, cfg))
	case "fleet":
		cfg, err := readFleetConfig(args, os.Getenv)
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		if err != nil {
			exit(err)
		}
		exit(runFleet(ctx, cfg))
	default:
		exit(fmt.Errorf("there is no command %q; there are run, check, purge, containerd-config, watchdog, virtlogd, libvirtd, fleet and version", command))
	}
}

func exit(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "tenon-agent:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
