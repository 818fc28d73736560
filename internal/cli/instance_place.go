package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

// bodyLimit is more than any file that a create takes may have.
const bodyLimit = 1 << 20

// guest is what a VM is given at its creation.
type guest struct {
	keys     []string // files
	userData string   // a file, or - for standard input
}

func (g *guest) flags(cmd *cobra.Command, in *api.InstanceCreate) {
	f := cmd.Flags()
	f.StringVar(&in.Kind, "kind", "", "container, vm or notebook; the image's when absent")
	f.StringArrayVar(&g.keys, "ssh-key", nil, "file with a public key that may log in to a VM (repeat); ~/.ssh/id_ed25519.pub with --kind vm when it is there")
	f.StringVar(&g.userData, "user-data", "", "file with cloud-init data for a VM, - for standard input; it is kept sealed and never shown again")
	f.StringVar(&in.OnStop, "on-stop", "", "what a VM's stop does with its place: release (default) or hold, charged as if it ran")
	f.StringVar(&in.OnNodeLoss, "on-node-loss", "", "when its node is lost: wait (default), or restart elsewhere")
	f.StringVar(&in.OnNodeReboot, "on-node-reboot", "", "when its node was booted again: restart it there (default of VMs and notebooks), or fail")
	for flag, words := range map[string][]string{
		"kind": {"container", "vm", "notebook"}, "on-stop": {"release", "hold"}, "on-node-loss": {"wait", "restart"}, "on-node-reboot": {"restart", "fail"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// read takes the files into the request.
func (g *guest) read(a *app, in *api.InstanceCreate) error {
	files := g.keys
	if len(files) == 0 && in.Kind == "vm" {
		if home := a.Getenv("HOME"); home != "" {
			usual := filepath.Join(home, ".ssh", "id_ed25519.pub")
			if _, err := os.Stat(usual); err == nil {
				_, _ = fmt.Fprintf(a.Err, "%s may log in (choose another with --ssh-key)\n", usual)
				files = []string{usual}
			}
		}
	}
	for _, path := range files {
		text, err := readLimited(path, a.In)
		if err != nil {
			return err
		}
		if strings.Contains(text, "PRIVATE KEY") {
			return fmt.Errorf("%s is a private key, which nobody else should have, and nothing was sent: give the public one, from the file that ends in .pub", path)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				in.SSHKeys = append(in.SSHKeys, line)
			}
		}
	}
	if g.userData == "" {
		return nil
	}
	text, err := readLimited(g.userData, a.In)
	in.UserData = text
	return err
}

func readLimited(path string, stdin io.Reader) (string, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("read a file for the instance: %w", err)
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, bodyLimit+1))
	if err == nil && len(b) > bodyLimit {
		err = errors.New("it is larger than 1 MiB")
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return string(b), nil
}

func (a *app) instanceStart() *cobra.Command {
	var how api.InstanceStart
	cmd := a.instanceAction("start", "Start stopped or failed instances again", goalRunning,
		func(c *api.Client, ctx context.Context, project, instance string, opts ...api.CallOption) (*api.Instance, error) {
			if how.WithoutGPU {
				return c.InstanceStartAs(ctx, project, instance, how, opts...)
			}
			return c.InstanceStart(ctx, project, instance, opts...)
		})
	cmd.Long = `Start stopped or failed instances again. A VM that held its place starts there at
once; anything else is queued. With --without-gpu a VM or a notebook needs no free
GPU: for reaching its data. What waits in the queue can be started so, too; the
next plain start asks for its GPU again.`
	cmd.Flags().BoolVar(&how.WithoutGPU, "without-gpu", false, "start without its GPU and without its price, to reach its data")
	return cmd
}

func (a *app) instanceStop() *cobra.Command {
	var hold, release bool
	cmd := a.instanceAction("stop", "Stop instances", goalStopped,
		func(c *api.Client, ctx context.Context, project, instance string, opts ...api.CallOption) (*api.Instance, error) {
			var wish string
			var i *api.Instance
			var err error
			switch {
			case hold:
				wish = "hold"
			case release:
				wish = "release"
			}
			if wish == "" {
				i, err = c.InstanceStop(ctx, project, instance, opts...)
			} else {
				i, err = c.InstanceStopAs(ctx, project, instance, api.InstanceStop{GPU: wish}, opts...)
			}
			if errors.Is(err, &api.Problem{Code: "state_conflict"}) {
				if now, e := c.InstanceGet(ctx, project, instance); e == nil && stopMet(now, wish) {
					return now, nil
				}
			}
			return i, err
		})
	cmd.Long = `Stop instances. They give back what they hold; a VM keeps its disk and a notebook
its home. A VM may hold its place instead, with its GPUs, so that it starts there
at once: it is charged as if it ran. --release also gives back the place of one
that was stopped and held.`
	cmd.Flags().BoolVar(&hold, "hold", false, "keep the place and the GPUs (VMs); charged on")
	cmd.Flags().BoolVar(&release, "release", false, "give the place back, whatever the VM's own policy")
	cmd.MarkFlagsMutuallyExclusive("hold", "release")
	return cmd
}

// stopMet reports whether an instance stops or is stopped already as a stop wishes.
func stopMet(i *api.Instance, wish string) bool {
	holds := i.Held
	switch i.State {
	case api.StateStopped:
	case api.StateStopping:
		if i.DesiredState != "stopped" {
			return false // it is being restarted
		}
		holds = i.Reason == "asked_to_hold"
	default:
		return false
	}
	if wish == "" {
		return !i.Held || i.OnStop == "hold"
	}
	return holds == (wish == "hold")
}

func (a *app) instanceResize() *cobra.Command {
	var flavor string
	cmd := &cobra.Command{
		Use: "resize NAME --flavor FLAVOR", Short: "Give a stopped instance another flavor", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		Long: "Give an instance that is stopped and holds nothing another flavor, for its next\nstart. A disk or home can grow, and never shrinks.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), args[0], api.InstanceUpdate{Flavor: &flavor})
		},
	}
	cmd.Flags().StringVar(&flavor, "flavor", "", "flavor, by name or id")
	_ = cmd.MarkFlagRequired("flavor")
	_ = cmd.RegisterFlagCompletionFunc("flavor", a.complete(a.flavorNames))
	return cmd
}

func (a *app) instanceUpdate() *cobra.Command {
	var onStop, onNodeLoss, onNodeReboot string
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Change what a stop, the loss of its node or its reboot does", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var in api.InstanceUpdate
			if onStop != "" {
				in.OnStop = &onStop
			}
			if onNodeLoss != "" {
				in.OnNodeLoss = &onNodeLoss
			}
			if onNodeReboot != "" {
				in.OnNodeReboot = &onNodeReboot
			}
			return a.change(cmd.Context(), args[0], in)
		},
	}
	cmd.Flags().StringVar(&onStop, "on-stop", "", "release or hold (VMs)")
	cmd.Flags().StringVar(&onNodeLoss, "on-node-loss", "", "wait or restart")
	cmd.Flags().StringVar(&onNodeReboot, "on-node-reboot", "", "restart or fail")
	cmd.MarkFlagsOneRequired("on-stop", "on-node-loss", "on-node-reboot")
	return cmd
}

func (a *app) change(ctx context.Context, name string, in api.InstanceUpdate) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	i, err := c.InstanceUpdate(ctx, a.projectName(), name, in, api.IdempotencyKey(randomKey()))
	if err != nil {
		return err
	}
	return a.waitAndPrint(ctx, c, []*api.Instance{i}, goal{}, waiting{})
}

// describePlace is what an instance keeps and holds while it is stopped.
func (a *app) describePlace(line func(name, value string), i *api.Instance) {
	if i.Held {
		line("Place", "held: its node and GPUs stay its own, and charged")
	}
	if i.Kind == "vm" {
		line("On stop", first(i.OnStop, "release"))
	}
	if i.OnNodeLoss == "restart" {
		line("On node loss", "restart elsewhere")
	}
	line("On node reboot", map[string]string{"restart": "restart there", "fail": "fail"}[i.OnNodeReboot])
	for _, v := range i.Volumes {
		text := fmt.Sprintf("%s of %s", v.State, memory(v.SizeMiB))
		if v.UsedMiB != nil {
			text += fmt.Sprintf(", %s used", memory(*v.UsedMiB))
		}
		if v.Node != "" {
			text += " on " + v.Node
		}
		if v.Message != "" {
			text += ": " + v.Message
		}
		line(map[string]string{"root": "Disk", "home": "Home"}[v.Role], text)
	}
	for _, k := range i.SSHKeys {
		line("SSH key", shortKey(k))
	}
}

// shortKey is a public key's type, its end and its comment.
func shortKey(k string) string {
	words := strings.Fields(k)
	if len(words) < 2 {
		return k
	}
	if tail := words[1]; len(tail) > 12 {
		words[1] = "…" + tail[len(tail)-12:]
	}
	return strings.Join(words, " ")
}

// priceText is what an instance costs, and what now if that differs.
func priceText(i *api.Instance) string {
	if i.PricePerHourMicros == nil {
		return ""
	}
	text := money(*i.PricePerHourMicros, i.Currency) + " an hour while it runs"
	if i.PriceNowMicros != nil && *i.PriceNowMicros != *i.PricePerHourMicros && i.State != api.StateRunning {
		text += ", " + money(*i.PriceNowMicros, i.Currency) + " now"
	}
	return text
}
