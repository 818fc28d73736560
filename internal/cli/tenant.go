package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) projects() *cobra.Command {
	cmd := group("project", "See and create projects", "projects")
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the organisation's projects", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.Project], error) { return c.ProjectList(cmd.Context(), o) })
			if err != nil {
				return err
			}
			return a.printProjects(items)
		},
	}
	var display string
	create := &cobra.Command{
		Use: "create NAME", Short: "Create a project", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := c.ProjectCreate(cmd.Context(), api.ProjectCreate{Name: args[0], DisplayName: display}, api.IdempotencyKey(randomKey()))
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(made, nil)
			}
			return a.printProjects([]api.Project{*made})
		},
	}
	create.Flags().StringVar(&display, "display-name", "", "a longer name, for people")
	cmd.AddCommand(list, create, a.projectUpdate())
	return cmd
}

func (a *app) projectUpdate() *cobra.Command {
	var display, stop string
	var warn time.Duration
	cmd := &cobra.Command{
		Use: "update [NAME]", Short: "Change a project: how it is shown, and when its idle notebooks are stopped", Args: cobra.MaximumNArgs(1),
		Example: "  tenon project update --idle-stop 2h --idle-warn 10m\n  tenon project update research --idle-stop never",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := a.projectName()
			if len(args) == 1 {
				name = args[0]
			}
			var in api.ProjectUpdate
			if cmd.Flags().Changed("display-name") {
				in.DisplayName = &display
			}
			if cmd.Flags().Changed("idle-stop") {
				after := 0
				if stop != "never" {
					d, err := time.ParseDuration(stop)
					if err != nil || d < time.Minute {
						return usageError{errors.New("--idle-stop is a time of at least a minute, such as 2h, or never"), cmd}
					}
					after = int(d.Seconds())
				}
				in.IdleStopSeconds = &after
			}
			if cmd.Flags().Changed("idle-warn") {
				before := int(warn.Seconds())
				in.IdleWarnSeconds = &before
			}
			if in == (api.ProjectUpdate{}) {
				return usageError{errors.New("say what to change: --display-name, --idle-stop or --idle-warn"), cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.ProjectUpdate(cmd.Context(), name, in)
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(p, nil)
			}
			return a.printProjects([]api.Project{*p})
		},
	}
	cmd.Flags().StringVar(&display, "display-name", "", "a longer name, for people")
	cmd.Flags().StringVar(&stop, "idle-stop", "", "stop notebooks that are idle for so long, such as 2h; or never")
	cmd.Flags().DurationVar(&warn, "idle-warn", 0, "warn so long before, such as 10m; 0: don't")
	return cmd
}

// idlePolicy says when idle notebooks of a project are stopped.
func idlePolicy(p api.Project) string {
	if p.IdleStopSeconds == nil {
		return "never"
	}
	text := "after " + short(time.Duration(*p.IdleStopSeconds)*time.Second)
	if p.IdleWarnSeconds > 0 {
		text += ", warned " + short(time.Duration(p.IdleWarnSeconds)*time.Second) + " before"
	}
	return text
}

func (a *app) printProjects(items []api.Project) error {
	return printList(a, items, "No projects.", []string{"NAME", "DISPLAY NAME", "ID", "IDLE STOP", "AGE"}, func(p api.Project) []string {
		return []string{p.Name, first(p.DisplayName, "-"), p.ID, idlePolicy(p), a.age(p.CreatedAt)}
	})
}

func (a *app) token() *cobra.Command {
	cmd := group("token", "Create, list and revoke API tokens", "tokens")
	var days int
	create := &cobra.Command{
		Use: "create NAME", Short: "Create an API token; its secret is shown once", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if days < 1 || days > 366 {
				return usageError{errors.New("--days is 1 to 366"), cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := c.TokenCreate(cmd.Context(), api.TokenCreate{Name: args[0], ExpiresInDays: days}, api.IdempotencyKey(randomKey()))
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(made, nil)
			}
			_, _ = fmt.Fprintf(a.Err, "Token %s, good until %s. It is not shown again:\n", made.Name, clock(made.ExpiresAt))
			_, err = fmt.Fprintln(a.Out, made.Secret)
			return err
		},
	}
	create.Flags().IntVar(&days, "days", 90, "how long it is good for, 1 to 366")
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List your API tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.Token], error) { return c.TokenList(cmd.Context(), o) })
			if err != nil {
				return err
			}
			return printList(a, items, "No tokens.", []string{"NAME", "HINT", "STATE", "EXPIRES", "LAST USED"}, func(t api.Token) []string {
				state := "good"
				switch {
				case t.RevokedAt != nil:
					state = "revoked"
				case t.ExpiresAt != nil && t.ExpiresAt.Before(a.Now()):
					state = "expired"
				}
				used := "never"
				if t.LastUsedAt != nil {
					used = a.age(*t.LastUsedAt) + " ago"
				}
				return []string{t.Name, t.Hint, state, clock(t.ExpiresAt), used}
			})
		},
	}
	revoke := &cobra.Command{
		Use: "revoke NAME...", Aliases: []string{"rm", "delete"}, Short: "End API tokens, at once and for good", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeEach(cmd.Context(), args, "Revoked token", (*api.Client).TokenRevoke)
		},
	}
	cmd.AddCommand(create, list, revoke)
	return cmd
}

func (a *app) usage() *cobra.Command {
	var by, from, to string
	cmd := &cobra.Command{
		Use: "usage", Short: "Show what a project used and what it cost", Args: cobra.NoArgs,
		Example: "  tenon usage --by instance\n  tenon usage --from 2026-11-01 --to 2026-12-01",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := api.UsageOptions{GroupBy: by}
			if by != "day" && by != "instance" && by != "sku" {
				return usageError{errors.New("--by is day, instance or sku"), cmd}
			}
			var err error
			if o.From, err = moment(from, "--from"); err != nil {
				return usageError{err, cmd}
			}
			if o.To, err = moment(to, "--to"); err != nil {
				return usageError{err, cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			u, err := c.Usage(cmd.Context(), a.projectName(), o)
			if err != nil {
				return err
			}
			return a.print(u, func(t *table) { fillUsage(t, u) })
		},
	}
	cmd.Flags().StringVar(&by, "by", "day", "day, instance or sku")
	cmd.Flags().StringVar(&from, "from", "", "first moment: 2026-11-01, or RFC 3339 (default: 30 days ago)")
	cmd.Flags().StringVar(&to, "to", "", "moment after the last (default: now)")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"day", "instance", "sku"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// moment reads a date, as its first moment in UTC, or a full time.
func moment(s, flag string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s takes a date such as 2026-11-01 or a time such as 2026-11-01T15:04:05Z, not %q", flag, s)
}

func fillUsage(t *table, u *api.Usage) {
	head := map[string]string{"day": "DAY", "instance": "INSTANCE", "sku": ""}[u.GroupBy]
	row := func(cells ...string) {
		if head == "" {
			cells = cells[1:]
		}
		t.row(cells...)
	}
	row(head, "WHAT", "QUANTITY", "COST")
	for _, line := range u.Items {
		row(first(line.Day, line.Instance, line.InstanceID), first(line.Name, line.SKU), fmt.Sprintf("%.4f %s", line.Quantity, line.Unit), money(line.CostMicros, u.Currency))
	}
	row("total", "", "", money(u.TotalMicros, u.Currency))
	if u.Running > 0 {
		row("still running", fmt.Sprintf("%d", u.Running), "", money(u.RatePerHourMicros, u.Currency)+" an hour")
	}
	for _, sku := range u.Unpriced {
		row("not charged", sku, "no price", "")
	}
}
