package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/api"
)

// maxPassword bounds what is read from standard input.
const maxPassword = 4096

func (a *app) credential() *cobra.Command {
	cmd := group("credential", "Keep passwords for private registries", "credentials", "registry-credential")
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the project's registry credentials, without passwords", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.RegistryCredential], error) {
				return c.RegistryCredentialList(cmd.Context(), a.projectName(), o)
			})
			if err != nil {
				return err
			}
			return a.printCredentials(items)
		},
	}
	var in api.RegistryCredentialCreate
	add := &cobra.Command{
		Use: "add HOST", Short: "Keep a user name and password for a registry, or replace them", Args: cobra.ExactArgs(1),
		Long: `Keep a user name and password for a registry, or replace those for that host.
The registry is asked whether it takes them. The password is asked for at the
terminal, or read from standard input; it is never an argument.`,
		Example: "  tenon credential add ghcr.io --username octocat\n  tenon credential add registry.example.com --username ci < password.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Username == "" {
				return usageError{errors.New("--username is needed"), cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			in.Host = args[0]
			if in.Password, err = a.registryPassword("Password for " + in.Username + " at " + in.Host + ": "); err != nil {
				return err
			}
			made, err := c.RegistryCredentialCreate(cmd.Context(), a.projectName(), in)
			if err != nil {
				return err
			}
			if made.Warning != "" {
				_, _ = fmt.Fprintln(a.Err, "Warning:", visible(made.Warning))
			}
			if a.output != "table" {
				return a.print(made, nil)
			}
			return a.printCredentials([]api.RegistryCredential{*made})
		},
	}
	add.Flags().StringVarP(&in.Username, "username", "u", "", "user name at the registry")
	remove := &cobra.Command{
		Use: "remove HOST...", Aliases: []string{"rm", "delete"}, Short: "Forget passwords; refused while an image is pulled with one", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeEach(cmd.Context(), args, "Removed the credential for", func(c *api.Client, ctx context.Context, host string) error {
				return c.RegistryCredentialDelete(ctx, a.projectName(), host)
			})
		},
	}
	cmd.AddCommand(list, add, remove)
	return cmd
}

func (a *app) printCredentials(items []api.RegistryCredential) error {
	return printList(a, items, "No registry credentials: add one with `tenon credential add`.", []string{"HOST", "USER NAME", "AGE"},
		func(c api.RegistryCredential) []string { return []string{c.Host, c.Username, a.age(c.CreatedAt)} })
}

// registryPassword asks without an echo at a terminal, and else takes the first line
// of standard input.
func (a *app) registryPassword(prompt string) (string, error) {
	if fd, ok := terminal(a.In); ok {
		_, _ = fmt.Fprint(a.Err, prompt)
		b, err := term.ReadPassword(fd)
		_, _ = fmt.Fprintln(a.Err)
		return string(b), err
	}
	b, err := io.ReadAll(io.LimitReader(a.In, maxPassword+2))
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", errors.New("there is no password on standard input")
	}
	return line, nil
}
