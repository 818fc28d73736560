package cli

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) instance() *cobra.Command {
	cmd := group("instance", "Create, watch and enter instances", "instances", "inst")
	cmd.AddCommand(a.instanceCreate(), a.instanceList(), a.instanceShow(), a.instanceDelete(),
		a.instanceStart(), a.instanceStop(), a.instanceResize(), a.instanceUpdate(),
		a.instanceAction("restart", "Stop instances and start them again where they are", goalRunning, (*api.Client).InstanceRestart),
		a.instanceEvents(), a.instanceLogs(), a.instanceShell(), a.instanceConsole(), a.instanceForward(), a.instanceOpen())
	return cmd
}

func (a *app) instanceCreate() *cobra.Command {
	var in api.InstanceCreate
	var need api.GPUNeed
	var env, labels []string
	var dryRun, noQueue bool
	var wait waiting
	var vm guest
	cmd := &cobra.Command{
		Use:   "create NAME --image IMAGE (--flavor FLAVOR | --gpu-...) [-- COMMAND [ARG...]]",
		Short: "Create an instance",
		Long: `Create an instance and queue it for a place. With --wait the command stays until
it runs. A COMMAND after -- replaces the image's own.

Without --flavor, say what the GPU must have (--gpu-memory, --gpu-model,
--gpu-fraction, --gpu-count, --compute-capability): the cheapest flavor that has it
is taken.`,
		Example: "  tenon instance create web-1 --image debian-12 --flavor h100-1g-10gb --wait\n" +
			"  tenon instance create web-2 --image debian-12 --gpu-memory 24 --wait\n" +
			"  tenon instance create job-1 --image debian-12 --flavor h100-1g-10gb --env EPOCHS=3 -- python3 -c 'print(42)'\n" +
			"  tenon instance create vm-1 --kind vm --image debian-12-vm --flavor h100-1x --ssh-key ~/.ssh/id_ed25519.pub --wait",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 1 && dash != 1 {
				return usageError{fmt.Errorf("one name is expected, and a command only after --; got %q", args), cmd}
			}
			in.Name, in.Command = args[0], args[1:]
			var err error
			if in.Env, err = pairs(env, "--env"); err != nil {
				return usageError{err, cmd}
			}
			if in.Labels, err = pairs(labels, "--label"); err != nil {
				return usageError{err, cmd}
			}
			if err := vm.read(a, &in); err != nil {
				return err
			}
			if err := oneShape(cmd, in.Flavor, &in.GPU, need); err != nil {
				return err
			}
			if noQueue {
				now := false
				in.Wait = &now
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if dryRun {
				return a.dryRun(cmd, c, in)
			}
			made, err := c.InstanceCreate(cmd.Context(), a.projectName(), in, api.IdempotencyKey(randomKey()))
			if err != nil {
				return err
			}
			return a.waitAndPrint(cmd.Context(), c, []*api.Instance{made}, goalRunning, wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Image, "image", "", "image, by name or id")
	f.StringVar(&in.Flavor, "flavor", "", "flavor, by name or id")
	needFlags(cmd, &need)
	f.StringVar(&in.Pool, "pool", "", "pool to run in; simulated nodes get work only when theirs is named")
	f.StringArrayVarP(&env, "env", "e", nil, "environment variable NAME=VALUE (repeat)")
	f.StringArrayVarP(&labels, "label", "l", nil, "label NAME=VALUE (repeat)")
	f.BoolVar(&dryRun, "dry-run", false, "say what it would cost and whether it would start now, and create nothing")
	f.BoolVar(&noQueue, "no-queue", false, "refuse instead of queueing when nothing is free now")
	vm.flags(cmd, &in)
	wait.flags(cmd)
	_ = cmd.MarkFlagRequired("image")
	_ = cmd.RegisterFlagCompletionFunc("image", a.complete(a.imageNames))
	_ = cmd.RegisterFlagCompletionFunc("flavor", a.complete(a.flavorNames))
	return cmd
}

func (a *app) dryRun(cmd *cobra.Command, c *api.Client, in api.InstanceCreate) error {
	r, err := c.InstanceDryRun(cmd.Context(), a.projectName(), api.DryRun(in))
	if err != nil {
		return err
	}
	return a.print(r, func(t *table) {
		outcome := "would wait"
		switch {
		case r.StartsNow:
			outcome = "would start now"
		case r.NeverFits:
			outcome = "would wait for ever: no node of the pool could take it, were it empty"
		}
		if r.Simulated && !r.NeverFits {
			outcome += ", on simulated GPUs"
		}
		t.row("OUTCOME", "FLAVOR", "POOL", "PRICE/HOUR", "FREE NOW", "WAITING BEFORE")
		t.row(outcome, r.Flavor, r.Pool, optionalMoney(r.PricePerHourMicros, r.Currency), fmt.Sprint(r.FreeNow), fmt.Sprint(r.Ahead))
		for _, reason := range r.Reasons {
			t.row(fmt.Sprintf("  %s (%d)", first(reason.Message, reason.Reason), reason.Count))
		}
		fillInstead(t, r.Instead)
	})
}

func (a *app) instanceList() *cobra.Command {
	var o api.InstanceListOptions
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List a project's instances", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := c.InstanceListAll(cmd.Context(), a.projectName(), o)
			if err != nil {
				return err
			}
			return a.printInstances(items)
		},
	}
	cmd.Flags().StringVar(&o.State, "state", "", "only those in this state")
	cmd.Flags().BoolVar(&o.All, "all", false, "deleted ones too")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{
		api.StateQueued, api.StateStarting, api.StateRunning, api.StateStopping, api.StateStopped, api.StateFailed, api.StateDeleting, api.StateDeleted,
	}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) printInstances(items []api.Instance) error {
	return printList(a, items, "No instances in project "+a.projectName()+".",
		[]string{"NAME", "STATE", "GPU", "IMAGE", "ADDRESS", "NODE", "PRICE/HOUR", "AGE"},
		func(i api.Instance) []string {
			return []string{i.Name, stateText(i), gpuText(i.Shape, i.Simulated), i.Image, first(i.Address, "-"), first(i.Node, "-"),
				optionalMoney(i.PricePerHourMicros, i.Currency), a.age(i.CreatedAt)}
		})
}

func (a *app) instanceShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Aliases: []string{"get"}, Short: "Show one instance in full", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			i, err := c.InstanceGet(cmd.Context(), a.projectName(), args[0])
			if err != nil {
				return err
			}
			return a.print(i, func(t *table) { a.describe(t, i) })
		},
	}
}

// describe is one instance, a line for each thing that a person asks about it.
func (a *app) describe(t *table, i *api.Instance) {
	line := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	line("Name", i.Name)
	line("Id", i.ID)
	line("Project", i.Project)
	if i.Rank != nil {
		line("Job", fmt.Sprintf("%s, member %d", i.Job, *i.Rank))
	}
	line("State", fmt.Sprintf("%s for %s", stateText(*i), a.age(i.StateAt)))
	line("Message", i.Message)
	if i.QueuePlace > 0 {
		line("Queue", fmt.Sprintf("number %d in pool %s", i.QueuePlace, i.Pool))
	}
	for _, r := range i.Reasons {
		t.row("  waits for", fmt.Sprintf("%s (%d)", first(r.Message, r.Reason), r.Count))
	}
	if i.ExitCode != nil {
		line("Exit code", fmt.Sprint(*i.ExitCode))
	}
	line("Image", i.Image+" "+shortDigest(i.ImageDigest))
	line("Flavor", i.Flavor)
	line("GPU", gpuText(i.Shape, i.Simulated))
	line("CPU, memory", fmt.Sprintf("%d vCPU, %s, disk %s", i.VCPU, memory(i.MemoryMiB), memory(i.DiskMiB)))
	for _, c := range i.GPUs {
		t.row("  holds", fmt.Sprintf("%s, slots %d to %d of %s", heldText(c), c.SlotStart, c.SlotEnd-1, c.GPUID))
	}
	line("Pool, node", i.Pool+", "+first(i.Node, "none"))
	line("Address", i.Address)
	a.describePlace(line, i)
	line("Price", priceText(i))
	line("Command", strings.Join(i.Command, " "))
	line("Created", fmt.Sprintf("%s by %s", clock(&i.CreatedAt), i.CreatedBy))
	if i.StartedAt != nil {
		line("Started", clock(i.StartedAt))
	}
	if i.LastLines != "" {
		t.row("Last lines")
		for _, text := range strings.Split(strings.TrimRight(i.LastLines, "\n"), "\n") {
			t.row("  " + text)
		}
	}
}

func shortDigest(d string) string {
	if _, hex, ok := strings.Cut(d, ":"); ok && len(hex) > 12 {
		return "(" + hex[:12] + ")"
	}
	return ""
}

// stateText says a state in the console's words.
func stateText(i api.Instance) string {
	switch {
	case i.Held && i.GPUCount > 0:
		return i.State + ", GPU held"
	case i.Held:
		return i.State + ", place held"
	case i.State == api.StateRunning && i.Reason == "node_lost": // nobody knows whether it still runs
		return i.State + ", unconfirmed"
	case i.State == api.StateRunning && i.Reason == "gpu_degraded":
		return i.State + ", degraded"
	case i.State == api.StateRunning && i.IdleStopAt != nil:
		return i.State + ", idle"
	case i.State == api.StateStarting && i.Progress != nil:
		return fmt.Sprintf("%s %d %%", i.State, *i.Progress)
	}
	return i.State
}

// gpuText is what an instance gets of GPUs, in a few words.
func gpuText(s api.Shape, simulated bool) string {
	if s.GPUCount == 0 {
		if simulated {
			return "none (simulated)"
		}
		return "none"
	}
	text := partText(first(s.GPUModelName, s.GPUModel), s.GPUMode, first(s.GPUProfileName, s.GPUProfile))
	if s.GPUCount > 1 {
		text = fmt.Sprintf("%d × %s", s.GPUCount, text)
	}
	if simulated {
		text += " (simulated)"
	}
	return text
}

// heldText is the model of a held card, and what of it is held.
func heldText(c api.Claim) string {
	return partText(first(c.ModelName, c.Model), c.Mode, first(c.ProfileName, c.Profile))
}

// partText is a card's model with the part of it that is meant, which a whole card
// has none of.
func partText(model, mode, profile string) string {
	switch {
	case mode == "" || mode == "whole":
		return model
	case mode == "vgpu" && !strings.HasSuffix(profile, "vGPU"): // on a MIG slice
		return model + " " + profile + " vGPU"
	}
	return model + " " + profile
}

func (a *app) instanceEvents() *cobra.Command {
	return &cobra.Command{
		Use: "events NAME", Short: "Show what happened to an instance", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.Event], error) {
				return c.InstanceEvents(cmd.Context(), a.projectName(), args[0], o)
			})
			if err != nil {
				return err
			}
			slices.SortFunc(items, func(x, y api.Event) int { return cmp.Compare(x.Seq, y.Seq) })
			return printList(a, items, "No events.", []string{"#", "AT", "EVENT", "MESSAGE"}, func(e api.Event) []string {
				return []string{fmt.Sprint(e.Seq), clock(&e.At), e.Verb, e.Message}
			})
		},
	}
}

// pairs reads NAME=VALUE arguments.
func pairs(args []string, flag string) (map[string]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s takes NAME=VALUE, not %q", flag, arg)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s %s is given twice", flag, name)
		}
		out[name] = value
	}
	return out, nil
}

func randomKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// waiting is --wait and --timeout.
type waiting struct {
	on      bool
	timeout time.Duration
}

func (w *waiting) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.on, "wait", "w", false, "stay until it is done, showing how it goes")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 15*time.Minute, "how long --wait waits; what was asked goes on afterwards")
}

var errNotConfirmed = errors.New("nothing was deleted")
