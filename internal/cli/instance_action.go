package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

type actionCall func(c *api.Client, ctx context.Context, project, instance string, opts ...api.CallOption) (*api.Instance, error)

// instanceAction makes the command for start, stop and restart.
func (a *app) instanceAction(verb, short string, goal goal, call actionCall) *cobra.Command {
	var wait waiting
	cmd := &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.each(cmd.Context(), c, args, goal, wait, call)
		},
	}
	wait.flags(cmd)
	return cmd
}

func (a *app) instanceDelete() *cobra.Command {
	var wait waiting
	var yes bool
	cmd := &cobra.Command{
		Use: "delete NAME...", Aliases: []string{"rm"}, Short: "Delete instances with all they hold", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.complete(a.instanceNames),
		Long: "Delete instances with all they hold. On a terminal it asks first, unless --yes is given.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if _, isTerminal := terminal(a.In); isTerminal && !yes {
				_, _ = fmt.Fprintf(a.Err, "Delete %s in project %s, with everything written in it? [y/N] ", strings.Join(args, ", "), a.projectName())
				answer, _ := readLine(bufio.NewReader(a.In))
				if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
					return errNotConfirmed
				}
			}
			return a.each(cmd.Context(), c, args, goalDeleted, wait, (*api.Client).InstanceDelete)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	wait.flags(cmd)
	return cmd
}

// each does one thing to several instances: all are tried, and the first
// error decides the exit code.
func (a *app) each(ctx context.Context, c *api.Client, names []string, goal goal, wait waiting, call actionCall) error {
	var done []*api.Instance
	var failed error
	for _, name := range names {
		i, err := call(c, ctx, a.projectName(), name, api.IdempotencyKey(randomKey()))
		if err != nil {
			if len(names) > 1 {
				err = fmt.Errorf("%s: %w", name, err)
			}
			failed = errors.Join(failed, err)
			continue
		}
		done = append(done, i)
	}
	if len(done) == 0 {
		return failed
	}
	return errors.Join(failed, a.waitAndPrint(ctx, c, done, goal, wait))
}

// goal is what --wait waits for.
type goal struct {
	name string
	done func(asked, now *api.Instance) bool
}

var (
	goalRunning = goal{"running", func(asked, now *api.Instance) bool {
		return now.State == api.StateRunning && now.ObservedGeneration >= asked.Generation
	}}
	goalStopped = goal{"stopped", func(_, now *api.Instance) bool { return now.State == api.StateStopped }}
	goalDeleted = goal{"deleted", func(_, now *api.Instance) bool { return now.State == api.StateDeleted }}
)

// over reports a state in which waiting longer is of no use.
func (g goal) over(asked, now *api.Instance) bool {
	if g.done(asked, now) {
		return true
	}
	switch now.State {
	case api.StateFailed, api.StateDeleted:
		return g.name != "deleted" || now.State == api.StateDeleted
	case api.StateStopped:
		// A command that ended by itself is done; one that was never started isn't.
		return g.name == "running" && now.ObservedGeneration >= asked.Generation
	}
	return false
}

// waitAndPrint waits if it is asked to, then prints what became of each.
func (a *app) waitAndPrint(ctx context.Context, c *api.Client, asked []*api.Instance, goal goal, wait waiting) error {
	var failed error
	out := make([]api.Instance, 0, len(asked))
	if wait.on {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait.timeout)
		defer cancel()
	}
	for _, i := range asked {
		if wait.on {
			now, err := a.watch(ctx, c, i, goal, wait)
			failed = errors.Join(failed, err)
			if now != nil {
				i = now
			}
		}
		out = append(out, *i)
	}
	if a.output == "table" {
		return errors.Join(a.printInstances(out), failed)
	}
	if len(out) == 1 {
		return errors.Join(a.print(out[0], nil), failed)
	}
	return errors.Join(a.print(out, nil), failed)
}

// watch follows one instance with a live line until its goal, its failure or
// the time limit.
func (a *app) watch(ctx context.Context, c *api.Client, asked *api.Instance, goal goal, wait waiting) (*api.Instance, error) {
	line := a.newStatus(asked.Name)
	defer line.close()
	now, err := c.WaitInstance(ctx, asked.ProjectID, asked.ID, func(i *api.Instance) bool { return goal.over(asked, i) }, line.show)
	var p *api.Problem
	switch {
	case errors.As(err, &p) && p.Status == http.StatusNotFound && goal.name == "deleted":
		gone := *asked
		gone.State = api.StateDeleted
		return &gone, nil
	case errors.Is(err, context.DeadlineExceeded):
		state := asked.State
		if now != nil {
			state = now.State
		}
		return now, waitedTooLong{fmt.Sprintf("%s is still %s after %s; what was asked goes on. `tenon instance show %[1]s` says more.", asked.Name, state, wait.timeout)}
	case err != nil:
		return now, err
	case !goal.done(asked, now) && now.State == api.StateStopped:
		return now, nil // its command ended with 0
	case !goal.done(asked, now):
		return now, failedInstance{failureText(now)}
	}
	return now, nil
}

func failureText(i *api.Instance) string {
	text := fmt.Sprintf("%s %s", i.Name, i.State)
	if why := first(i.Message, i.Reason); why != "" {
		text += ": " + why
	}
	if i.ExitCode != nil && !strings.Contains(text, "exit") {
		text += fmt.Sprintf(" (exit code %d)", *i.ExitCode)
	}
	if i.LastLines != "" {
		text += "\n  its last lines:\n    " + strings.ReplaceAll(strings.TrimRight(visible(i.LastLines), "\n"), "\n", "\n    ")
	}
	return text
}
