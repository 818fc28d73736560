package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) placement() *cobra.Command {
	cmd := group("placement", "Ask why something waits, and what would start now", "placements")
	cmd.AddCommand(a.placementExplain(), a.placementDryRun())
	return cmd
}

// explained is what is known of why an instance waits.
type explained struct {
	Instance *api.Instance     `json:"instance"`
	Now      *api.DryRunResult `json:"now,omitempty"` // of another one like it
}

func (a *app) placementExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain INSTANCE", Short: "Say why an instance waits, and which flavors would start now", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			i, err := c.InstanceGet(cmd.Context(), a.projectName(), args[0])
			if err != nil {
				return err
			}
			out := explained{Instance: i}
			if i.State == api.StateQueued {
				out.Now, err = c.InstanceDryRun(cmd.Context(), a.projectName(), api.DryRun{Image: i.ImageID, Flavor: i.FlavorID, Kind: i.Kind, Pool: i.Pool})
				if err != nil { // it may be gone from what is offered; why it waits is known all the same
					_, _ = fmt.Fprintln(a.Err, "which flavors would start now is not known:", err)
				}
			}
			return a.print(out, func(t *table) { fillExplained(t, out) })
		},
	}
	cmd.ValidArgsFunction = a.complete(a.instanceNames)
	return cmd
}

func fillExplained(t *table, e explained) {
	i := e.Instance
	t.row("INSTANCE", "FLAVOR", "STATE", "PLACE IN QUEUE")
	place := "-"
	if i.QueuePlace > 0 {
		place = fmt.Sprint(i.QueuePlace)
	}
	t.row(i.Name, i.Flavor, i.State, place)
	if i.Message != "" {
		t.row("  " + i.Message)
	}
	if e.Now != nil {
		fillInstead(t, e.Now.Instead)
	}
}

func fillInstead(t *table, list []api.Instead) {
	for _, x := range list {
		t.row(fmt.Sprintf("  would start now: %s, %s (%d free)", x.Flavor, x.Why, x.FreeNow))
	}
}

func (a *app) placementDryRun() *cobra.Command {
	var in api.DryRun
	var need api.GPUNeed
	cmd := &cobra.Command{
		Use: "dry-run --image IMAGE (--flavor FLAVOR | --gpu-...)", Short: "Say whether an instance would start now, what it costs, and why not", Args: cobra.NoArgs,
		Example: "  tenon placement dry-run --image debian-12 --gpu-memory 24\n  tenon placement dry-run --image debian-12 --flavor h100-1x",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneShape(cmd, in.Flavor, &in.GPU, need); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.dryRun(cmd, c, api.InstanceCreate(in))
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Image, "image", "", "image, by name or id")
	f.StringVar(&in.Flavor, "flavor", "", "flavor, by name or id")
	f.StringVar(&in.Pool, "pool", "", "pool to run in; simulated nodes get work only when theirs is named")
	needFlags(cmd, &need)
	_ = cmd.MarkFlagRequired("image")
	_ = cmd.RegisterFlagCompletionFunc("image", a.complete(a.imageNames))
	_ = cmd.RegisterFlagCompletionFunc("flavor", a.complete(a.flavorNames))
	return cmd
}

// needFlags ask for a GPU by what it must have.
func needFlags(cmd *cobra.Command, need *api.GPUNeed) {
	f := cmd.Flags()
	f.Float64Var(&need.MemoryGiB, "gpu-memory", 0, "GiB of memory that a card or slice must have, instead of a flavor")
	f.StringVar(&need.Model, "gpu-model", "", "GPU model that it must be, instead of a flavor")
	f.Float64Var(&need.Fraction, "gpu-fraction", 0, "part of a card that it must be (0.5: half), instead of a flavor")
	f.IntVar(&need.Count, "gpu-count", 0, "cards or slices that it must have, instead of a flavor")
	f.StringVar(&need.ComputeCapability, "compute-capability", "", "CUDA compute capability that it must have at least (9.0), instead of a flavor")
}

// oneShape puts the need where it belongs, and refuses two ways to ask or none.
func oneShape(cmd *cobra.Command, flavor string, at **api.GPUNeed, need api.GPUNeed) error {
	if need != (api.GPUNeed{}) {
		*at = &need
	}
	if (flavor == "") == (*at == nil) {
		return usageError{fmt.Errorf("name a --flavor, or say with --gpu-memory and its like what the GPU must have"), cmd}
	}
	return nil
}
