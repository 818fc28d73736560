package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) gpuHistory() *cobra.Command {
	return &cobra.Command{
		Use: "history GPU", Short: "List who held a card and when, newest first (operators)", Args: cobra.ExactArgs(1),
		Long: "List who held a card and when, newest first. A card that was forgotten is found by its\nid or UUID.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.GPUStay], error) {
				return c.GPUHistory(cmd.Context(), args[0], o)
			})
			if err != nil {
				return err
			}
			return printList(a, items, "Nobody has held it.", []string{"INSTANCE", "ORGANISATION", "WHAT", "SLOTS", "RUN", "FROM", "TO"},
				func(s api.GPUStay) []string {
					to := "now"
					if s.To != nil {
						to = clock(s.To)
					}
					return []string{s.Instance, s.Organisation, s.ProfileName, slotsText(s.SlotStart, s.SlotEnd), fmt.Sprint(s.Epoch), clock(&s.From), to}
				})
		},
	}
}

func slotsText(from, to int) string {
	if to-from == 1 {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d-%d", from, to-1)
}

func (a *app) gpuForget() *cobra.Command {
	return &cobra.Command{
		Use: "forget GPU", Short: "Give up a card that was taken out for good (operators)", Args: cobra.ExactArgs(1),
		Long: "Give up a card that was taken out for good: it leaves the count, and who held it stays\nknown. It must be missing, and nothing of it may be held. Put in again, it is a new card.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.GPUForget(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Err, "%s is forgotten.\n", args[0])
			return err
		},
	}
}

func (a *app) gpuSimulateFault() *cobra.Command {
	var xid int
	cmd := &cobra.Command{
		Use: "simulate-fault GPU --xid N", Short: "Have a simulated card show a fault (operators)", Args: cobra.ExactArgs(1),
		Long: "Have a simulated card show a fault, by NVIDIA's number. Its node reports it as it would a\n" +
			"real one: 31 is a program's fault and leaves the card in service, 48 waits for a reset, 79\n" +
			"takes it out until it is recovered (tenon gpu recover).",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			g, err := c.GPUSimulateFault(cmd.Context(), args[0], api.GPUFault{XID: xid})
			if err != nil {
				return err
			}
			return a.print(g, func(t *table) { fillGPU(t, g) })
		},
	}
	cmd.Flags().IntVar(&xid, "xid", 0, "NVIDIA's number of the fault")
	_ = cmd.MarkFlagRequired("xid")
	return cmd
}
