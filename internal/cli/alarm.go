package cli

import (
	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) alarm() *cobra.Command {
	cmd := group("alarm", "See what needs a person (operators)", "alarms")
	var all bool
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the open alarms, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.Alarm], error) {
				return c.AlarmList(cmd.Context(), api.AlarmListOptions{PageOptions: o, All: all})
			})
			if err != nil {
				return err
			}
			return a.printAlarms(items)
		},
	}
	list.Flags().BoolVar(&all, "all", false, "cleared ones too")
	acknowledge := &cobra.Command{
		Use: "acknowledge ALARM...", Aliases: []string{"ack"}, Short: "Say that somebody looks after alarms, by their ids", Args: cobra.MinimumNArgs(1),
		Long: "Say that somebody looks after alarms, by the ids that tenon alarm list shows. Each\nstays until its cause is gone; that the cloud was restored from a backup has none\nthat goes, and is cleared by this.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var seen []api.Alarm
			for _, id := range args {
				x, err := c.AlarmAcknowledge(cmd.Context(), id)
				if err != nil {
					return err
				}
				seen = append(seen, *x)
			}
			return a.printAlarms(seen)
		},
	}
	cmd.AddCommand(list, acknowledge)
	return cmd
}

func (a *app) printAlarms(items []api.Alarm) error {
	return printList(a, items, "No alarms.", []string{"ID", "SINCE", "SEVERITY", "STATE", "WHAT"}, func(x api.Alarm) []string {
		return []string{x.ID, a.age(x.OpenedAt) + " ago", x.Severity, x.State, x.Message}
	})
}
