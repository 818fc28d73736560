package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) jobLogs() *cobra.Command {
	var o api.LogOptions
	var rank int
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Show what a job's members wrote", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.jobNames),
		Long: `Show what a job's members wrote, of their present or last run: all of them, each
line with its member's rank before it, or one with --rank. With --follow it goes
on until the job is over, also into its next attempts.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			j, err := c.JobGet(ctx, a.projectName(), args[0])
			if err != nil {
				return err
			}
			l := &jobLog{app: a, client: c, job: j, options: o, only: -1}
			if cmd.Flags().Changed("rank") {
				if rank < 0 || rank >= len(j.Members) {
					return usageError{fmt.Errorf("job %s has members 0 to %d, and --rank is %d", j.Name, len(j.Members)-1, rank), cmd}
				}
				l.only = rank
			}
			err = l.run(ctx)
			if errors.Is(err, context.Canceled) || errors.Is(err, os.ErrClosed) {
				return nil // Ctrl-C is how one stops following
			}
			return err
		},
	}
	cmd.Flags().IntVar(&rank, "rank", 0, "of this member alone, without its rank before each line")
	cmd.Flags().IntVarP(&o.Tail, "tail", "n", 0, "only the last lines of each member")
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on until the job is over")
	return cmd
}

// jobLog reads the logs of a job's members, as many at once as run.
type jobLog struct {
	app     *app
	client  *api.Client
	job     *api.Job
	options api.LogOptions
	only    int // a rank; -1: all
	out     sync.Mutex
}

// jobLooks is how often a followed job is asked for members that began meanwhile.
const jobLooks = 500 * time.Millisecond

func (l *jobLog) run(ctx context.Context) error {
	if !l.options.Follow {
		for _, m := range l.job.Members {
			if l.only >= 0 && m.Rank != l.only {
				continue
			}
			if err := l.copy(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}
	var all sync.WaitGroup
	defer all.Wait()
	reading := map[string]bool{} // runs that are read, or were
	for {
		for _, m := range l.job.Members {
			run := m.Instance + "@" + startOf(m)
			if l.only >= 0 && m.Rank != l.only || m.StartedAt == nil || reading[run] {
				continue
			}
			reading[run] = true
			all.Go(func() { _ = l.copy(ctx, m) })
		}
		switch l.job.State {
		case api.JobSucceeded, api.JobFailed, api.JobCancelled, api.JobDeleted:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(jobLooks):
		}
		now, err := l.client.JobGet(ctx, l.job.ProjectID, l.job.ID)
		var p *api.Problem
		switch {
		case err == nil:
			l.job = now
		case errors.As(err, &p) && p.Status == http.StatusNotFound:
			return nil
		case errors.As(err, &p) && p.Status < 500, ctx.Err() != nil:
			return err
		}
	}
}

func startOf(m api.JobMember) string {
	if m.StartedAt == nil {
		return ""
	}
	return m.StartedAt.Format(time.RFC3339Nano)
}

// copy writes one member's lines, each as a whole.
func (l *jobLog) copy(ctx context.Context, m api.JobMember) error {
	lines, err := l.client.Logs(ctx, l.job.ProjectID, m.InstanceID, l.options)
	var p *api.Problem
	if errors.As(err, &p) && p.Status == http.StatusConflict {
		return nil // it has not run yet
	}
	if err != nil {
		return err
	}
	defer func() { _ = lines.Close() }()
	prefix := ""
	if l.only < 0 && len(l.job.Members) > 1 {
		prefix = fmt.Sprintf("[%*d] ", len(fmt.Sprint(len(l.job.Members)-1)), m.Rank)
	}
	r := bufio.NewReader(lines)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if line[len(line)-1] != '\n' {
				line += "\n"
			}
			l.out.Lock()
			_, werr := fmt.Fprint(l.app.Out, prefix+line)
			l.out.Unlock()
			if werr != nil {
				return werr
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the end of what there is, or of the member
		}
	}
}

func (a *app) jobEvents() *cobra.Command {
	return &cobra.Command{
		Use: "events NAME", Short: "Show what happened to a job", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.jobNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.Event], error) {
				return c.JobEvents(cmd.Context(), a.projectName(), args[0], o)
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
