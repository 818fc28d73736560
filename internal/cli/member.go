package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) member() *cobra.Command {
	cmd := group("member", "See, add and remove the people of an organisation", "members")
	var org string
	cmd.PersistentFlags().StringVar(&org, "org", "", "the organisation (default: your own)")
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List an organisation's people", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			c, in, err := a.inOrganisation(ctx, org)
			if err != nil {
				return err
			}
			items, err := api.ListAll(ctx, func(o api.PageOptions) (*api.Page[api.Member], error) { return c.MemberList(ctx, in, o) })
			if err != nil {
				return err
			}
			return a.printMembers(items)
		},
	}
	var role, name string
	var withPassword bool
	add := &cobra.Command{
		Use: "add EMAIL", Short: "Add a person (operators)", Args: cobra.ExactArgs(1),
		Long: `Add a person to an organisation. With --password-stdin a new account is made
with that first password; without it the person must have an account already.
For platform operators.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, in, err := a.inOrganisation(cmd.Context(), org)
			if err != nil {
				return err
			}
			want := api.MemberCreate{Email: args[0], Name: name, Role: role}
			if withPassword {
				if want.Password, err = readLine(bufio.NewReader(a.In)); err != nil {
					return err
				}
			}
			made, err := c.MemberCreate(cmd.Context(), in, want)
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(made, nil)
			}
			return a.printMembers([]api.Member{*made})
		},
	}
	add.Flags().StringVar(&role, "role", "member", "owner, admin, member or auditor")
	add.Flags().StringVar(&name, "name", "", "how to call a new person")
	add.Flags().BoolVar(&withPassword, "password-stdin", false, "make the account, with the password from standard input")
	remove := &cobra.Command{
		Use: "remove EMAIL...", Aliases: []string{"rm", "delete"}, Short: "Remove people; their tokens for it end at once", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, in, err := a.inOrganisation(cmd.Context(), org)
			if err != nil {
				return err
			}
			return a.removeEach(cmd.Context(), args, "Removed", func(c *api.Client, ctx context.Context, who string) error { return c.MemberDelete(ctx, in, who) })
		},
	}
	cmd.AddCommand(list, add, remove)
	return cmd
}

// inOrganisation is a client, and the organisation that is meant.
func (a *app) inOrganisation(ctx context.Context, org string) (*api.Client, string, error) {
	c, err := a.client()
	if err != nil || org != "" {
		return c, org, err
	}
	me, err := c.Me(ctx)
	if err != nil {
		return nil, "", err
	}
	if me.Organisation.ID == "" {
		return nil, "", errors.New("you belong to no organisation: name one with --org")
	}
	return c, me.Organisation.ID, nil
}

func (a *app) printMembers(items []api.Member) error {
	return printList(a, items, "No people.", []string{"EMAIL", "NAME", "ROLE", "ID", "SINCE"}, func(m api.Member) []string {
		return []string{m.Email, first(m.Name, "-"), m.Role, m.UserID, a.age(m.CreatedAt)}
	})
}

func (a *app) password() *cobra.Command {
	var of string
	var fromStdin bool
	cmd := &cobra.Command{
		Use: "password", Short: "Change your password", Args: cobra.NoArgs,
		Long: `Change your password: the present one and the new one are asked for, or read from
two lines of standard input. Your browser sessions end; API tokens stay.

With --of, a platform operator sets somebody else's: one line, the new password.
All sessions and API tokens of that person end.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			in := bufio.NewReader(a.In)
			current := ""
			if of == "" {
				_, _ = fmt.Fprintln(a.Err, "The present password:")
				if current, err = a.readPassword(in, fromStdin); err != nil {
					return err
				}
			}
			_, _ = fmt.Fprintln(a.Err, "The new password:")
			next, err := a.readPassword(in, fromStdin)
			if err != nil {
				return err
			}
			if of != "" {
				err = c.PasswordReset(cmd.Context(), of, api.PasswordReset{Password: next})
			} else {
				err = c.PasswordChange(cmd.Context(), api.PasswordChange{CurrentPassword: current, Password: next})
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, "The password is changed.")
			return err
		},
	}
	cmd.Flags().StringVar(&of, "of", "", "e-mail address or id of another person (operators)")
	cmd.Flags().BoolVar(&fromStdin, "password-stdin", false, "read the passwords from standard input, a line each")
	return cmd
}
