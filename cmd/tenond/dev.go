package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/devcloud"
	"github.com/tenon-cloud/tenon/internal/device/sim"
)

func devCommand() *cobra.Command {
	var state, board, nodeHosts string
	var clean, firstImage bool
	var simulated int
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole cloud on this machine", Args: cobra.NoArgs,
		Long: `Run a whole cloud on this machine: a private Postgres, the control plane, a
private containerd and a node agent with simulated GPUs, and beside that a fleet
of simulated nodes, which book resources and run nothing; they get work only
when their pool, simulated, is asked for. Everything is kept in the state folder
and carries its id, so that several clouds don't meet. Ctrl-C stops all of it; a
second Ctrl-C doesn't wait.`,
		RunE: func(*cobra.Command, []string) error {
			if _, err := sim.Fleet(simulated); err != nil {
				return fmt.Errorf("--simulate-nodes: %w", err)
			}
			if boards, err := sim.Names(nil); err != nil || !slices.Contains(boards, board) {
				return fmt.Errorf("--board: there is no simulated board %q; there are %s", board, strings.Join(boards, ", "))
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find own program: %w", err)
			}
			o := devcloud.Options{
				State: state, Programs: filepath.Dir(self), Roots: devcloud.DefaultRoots, Setup: devSetup,
				AdminPassword: os.Getenv("TENON_ADMIN_PASSWORD"), SimulatedNodes: simulated, Board: board, NodeHosts: nodeHosts, FirstImageOnly: firstImage,
			}
			console := devcloud.NewConsole(os.Stdout)
			if clean {
				return devcloud.Clean(state, o.Roots, filepath.Join(o.Programs, "tenon-agent"), console.Say)
			}
			ctx, hurry, stop := interrupts()
			defer stop()
			return devcloud.Run(ctx, o, console, hurry)
		},
	}
	cmd.Flags().StringVar(&state, "state", "var", "state folder")
	cmd.Flags().StringVar(&board, "board", "local", "simulated board of the local node; not to be changed while anything holds a card of it")
	cmd.Flags().IntVar(&simulated, "simulate-nodes", 12, fmt.Sprintf("simulated nodes beside the local one, 0 to %d", sim.FleetMax))
	cmd.Flags().StringVar(&nodeHosts, "node-hosts", "", "more names and addresses for the node door's certificate, by comma, for nodes that reach it through a forwarder")
	cmd.Flags().BoolVar(&firstImage, "first-image-only", false, "don't make the images jupyter and debian-12-vm")
	cmd.Flags().BoolVar(&clean, "clean", false, "stop this folder's cloud, delete all of it, and end")
	return cmd
}

// interrupts ends ctx at the first interrupt and closes hurry at the second.
func interrupts() (ctx context.Context, hurry <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	now := make(chan struct{})
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of our output that has gone (`make run | tee`) must not end us in
	// the middle of stopping. Caught, not ignored: children would inherit that.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	go func() {
		<-signals
		cancel()
		<-signals
		close(now)
	}()
	return ctx, now, func() { signal.Stop(signals); signal.Stop(pipes); cancel() }
}

// devSetup makes the database, the administrator and this run's token, in this
// process: no secret passes through an argument or a file.
func devSetup(ctx context.Context, in devcloud.SetupInput) (out devcloud.SetupResult, err error) {
	c := config{CloudID: in.CloudID, DatabaseURL: in.OwnerDSN, MasterKeyFile: in.MasterKeyFile, StateDir: in.StateDir}
	k, err := openCore(ctx, c, slog.New(slog.DiscardHandler), "")
	if err != nil {
		return out, err
	}
	defer k.db.Close()
	if k.keys.CloudID() != in.CloudID {
		return out, errors.New("the database belongs to another cloud: the state folder was put together from two")
	}
	made, err := k.app.Setup(ctx, app.SetupInput{AdminEmail: in.AdminEmail, AdminName: "Administrator", AdminPassword: in.AdminPassword})
	if err != nil {
		return out, fmt.Errorf("first boot: %w", err)
	}
	out.AdminCreated, out.NodeCA = made.AdminCreated, k.keys.CAPEM()
	if out.Token, err = k.app.SetupToken(ctx, in.AdminEmail, in.TokenName, in.TokenLife); err != nil {
		return out, fmt.Errorf("make this run's token: %w", err)
	}
	return out, nil
}
