package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) gpu() *cobra.Command {
	cmd := group("gpu", "See the fleet's GPUs, divide and recover them", "gpus")
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List every card, and who holds what of it (operators)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.GPU], error) {
				return c.GPUList(cmd.Context(), api.GPUListOptions{PageOptions: o})
			})
			if err != nil {
				return err
			}
			return printList(a, items, "No GPUs: no node has reported any yet.",
				[]string{"GPU", "NODE", "ADDRESS", "#", "MODEL", "MODE", "STATE", "SLOTS", "HELD BY"},
				func(g api.GPU) []string {
					model, state := first(g.ModelName, g.Model), g.State
					if g.Simulated {
						model += " (simulated)"
					}
					if g.Reason != "" {
						state += ": " + g.Reason
					}
					if g.Changing {
						state += ", changing"
					}
					return []string{first(g.UUID, g.ID), g.Node, first(g.PCIAddress, "-"), fmt.Sprint(g.Index), model, g.Mode, state, slotBar(g), holders(g)}
				})
		},
	}, a.gpuShow(), a.gpuSet(), a.gpuRecover(), a.gpuIncidents(), a.gpuHistory(), a.gpuForget(), a.gpuSimulateFault())
	return cmd
}

// slotBar draws a card's slots: letters for holds, dots for what is free.
func slotBar(g api.GPU) string {
	bar := []byte(strings.Repeat(".", max(g.Slots, 0)))
	for n, c := range g.Claims {
		for s := max(c.SlotStart, 0); s < min(c.SlotEnd, len(bar)); s++ {
			bar[s] = byte('a' + n%26)
		}
	}
	return string(bar)
}

func holders(g api.GPU) string {
	var held []string
	for n, c := range g.Claims {
		whose := first(c.Instance, c.InstanceID)
		if c.Organisation != "" { // two tenants may have chosen one name
			whose = c.Organisation + "/" + whose
		}
		held = append(held, fmt.Sprintf("%c=%s %s", 'a'+n%26, whose, first(c.ProfileName, c.Profile)))
	}
	return first(strings.Join(held, ", "), "-")
}

func (a *app) flavor() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List what can be had, at what price, and how many are free now", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			flavors, err := c.FlavorList(cmd.Context())
			if err != nil {
				return err
			}
			return printList(a, flavors.Items, "No flavors are offered.",
				[]string{"NAME", "GPU", "VCPU", "MEMORY", "DISK", "PRICE/HOUR", "FREE NOW", "FREE IN SIMULATED POOLS"},
				func(f api.Flavor) []string {
					return []string{f.Name, gpuText(f.Shape, false), fmt.Sprint(f.VCPU), memory(f.MemoryMiB), memory(f.DiskMiB),
						optionalMoney(f.PricePerHourMicros, f.Currency), freeText(f, f.FreeNow, func(k api.FlavorKind) int { return k.FreeNow }), freeText(f, f.FreeSimulatedNow, func(k api.FlavorKind) int { return k.FreeSimulatedNow })}
				})
		},
	}
	cmd := group("flavor", "See what can be had", "flavors")
	cmd.AddCommand(list)
	return cmd
}

// freeText is how many are free: one figure if it is the same for each kind of
// instance that can have them.
func freeText(f api.Flavor, all int, of func(api.FlavorKind) int) string {
	var each []string
	same := true
	for _, k := range f.Kinds {
		each = append(each, fmt.Sprintf("%s %d", k.Kind, of(k)))
		same = same && of(k) == of(f.Kinds[0])
	}
	if same {
		return fmt.Sprint(all)
	}
	return strings.Join(each, ", ")
}

// complete offers names from the cloud to the shell; a cloud that doesn't
// answer offers nothing.
func (a *app) complete(names func(context.Context, *api.Client) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		var out []string
		for _, name := range names(ctx, c) {
			if strings.HasPrefix(name, prefix) && !slices.Contains(args, name) {
				out = append(out, name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
