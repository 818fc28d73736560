package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/api"
)

// exitLost is the exit code of a shell whose terminal was lost.
const exitLost = 255

func (a *app) instanceShell() *cobra.Command {
	var noTTY, noStdin bool
	var user string
	var identities []string
	cmd := &cobra.Command{
		Use: "shell NAME [-- COMMAND [ARG...]]", Aliases: []string{"exec", "ssh"}, Short: "Open a terminal in an instance, or run a command there",
		Long: `Open a login shell in a running instance, or run COMMAND there and exit with its
exit code. The command runs inside the instance's own limits and sees only its
own devices.

A VM is entered by SSH, spoken by this command through a stream to its port 22:
the private key never leaves this machine, and the VM needs no public address. The
keys of ssh-agent and of ~/.ssh are tried, or only those given with --identity.
The VM's host key is trusted when it is first seen and must stay the same.`,
		Example: "  tenon instance shell web-1\n  tenon instance shell web-1 -- nvidia-smi\n  tar c data | tenon instance shell web-1 -- tar x -C /root",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 1 && dash != 1 {
				return usageError{fmt.Errorf("a command comes after --: tenon instance shell %s -- %s", args[0], args[1]), cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			i, err := c.InstanceGet(cmd.Context(), a.projectName(), args[0])
			if err != nil {
				return err
			}
			if i.Kind == "vm" {
				var patience time.Duration
				if _, isTerminal := terminal(a.In); isTerminal {
					patience = 2 * time.Minute
				}
				return a.sshShell(cmd.Context(), c, i, sshOptions{
					user: user, identities: identities, command: args[1:], noTTY: noTTY, noStdin: noStdin, greet: 30 * time.Second, patience: patience,
					knownHosts: a.beside("known_hosts"), passphraseOf: a.askPassphrase, agentSocket: a.Getenv("SSH_AUTH_SOCK"), defaultKeyFiles: usualKeys(),
				})
			}
			if cmd.Flags().Changed("user") || len(identities) > 0 {
				return usageError{fmt.Errorf("%s is a %s, which is entered without SSH: --user and --identity are for VMs", i.Name, i.Kind), cmd}
			}
			return a.shell(cmd.Context(), c, args[0], args[1:], noTTY, noStdin)
		},
	}
	cmd.Flags().BoolVarP(&noTTY, "no-tty", "T", false, "no terminal, even on one")
	cmd.Flags().BoolVarP(&noStdin, "no-stdin", "n", false, "don't read standard input")
	cmd.Flags().StringVarP(&user, "user", "l", sshUser, "who to log in as (VMs)")
	cmd.Flags().StringArrayVarP(&identities, "identity", "i", nil, "private key file; may be repeated (VMs)")
	return cmd
}

func (a *app) shell(ctx context.Context, c *api.Client, name string, command []string, noTTY, noStdin bool) error {
	o := api.ExecOptions{Command: command, Stdin: a.In, Stdout: a.Out, Stderr: a.Err}
	if noStdin {
		o.Stdin = nil
	}
	in, inTTY := terminal(a.In)
	out, outTTY := terminal(a.Out)
	if o.TTY = inTTY && outTTY && !noTTY && !noStdin; o.TTY {
		if w, h, err := term.GetSize(out); err == nil {
			o.Columns, o.Rows = w, h
		}
		before, err := term.MakeRaw(in)
		if err != nil {
			return fmt.Errorf("set up the terminal: %w", err)
		}
		defer func() { _ = term.Restore(in, before) }()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		o.Resize = watchSize(ctx, out)
	}
	code, err := c.Exec(ctx, a.projectName(), name, o)
	switch {
	case errors.Is(err, api.ErrExecLost):
		_, _ = fmt.Fprintf(a.Err, "\r\ntenon: %v\r\n", err)
		return exitWith(exitLost)
	case err != nil:
		return err
	case code != 0:
		return exitWith(code)
	}
	return nil
}

func (a *app) instanceLogs() *cobra.Command {
	var o api.LogOptions
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Show what an instance wrote", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			lines, err := c.Logs(cmd.Context(), a.projectName(), args[0], o)
			if err != nil {
				return err
			}
			defer func() { _ = lines.Close() }()
			_, err = io.Copy(a.Out, lines)
			if errors.Is(err, context.Canceled) || errors.Is(err, os.ErrClosed) {
				return nil // Ctrl-C is how one stops following
			}
			return err
		},
	}
	cmd.Flags().IntVarP(&o.Tail, "tail", "n", 0, "only the last lines")
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on until the instance ends")
	return cmd
}
