package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) job() *cobra.Command {
	cmd := group("job", "Run jobs: gangs and arrays that end by themselves", "jobs")
	cmd.AddCommand(a.jobRun(), a.jobList(), a.jobShow(), a.jobLogs(), a.jobEvents(),
		a.jobEnd("cancel", "Stop a job's members; its history stays", api.JobCancelled, (*api.Client).JobCancel),
		a.jobEnd("delete", "Delete jobs with their members", api.JobDeleted, (*api.Client).JobDelete))
	return cmd
}

func (a *app) jobRun() *cobra.Command {
	var in api.JobCreate
	var env, labels []string
	var members, least, array, parallel int
	var expected, most time.Duration
	var wait waiting
	cmd := &cobra.Command{
		Use:   "run NAME --image IMAGE --flavor FLAVOR [-- COMMAND [ARG...]]",
		Short: "Run a job",
		Long: `Run a command to its end, in one instance or in many, the job's members.

--members N makes a gang: all N start together or none does. They lie on one
node and find each other by name: each has RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT, as torchrun expects. With --across-nodes they may lie on several
nodes, whose networks are not joined: then there is no MASTER_ADDR.

--array N makes N tasks that know nothing of each other, --parallel of them at
once; each has TENON_ARRAY_INDEX.`,
		Example: "  tenon job run hello --image debian-12 --flavor cpu-small --wait -- echo hello\n" +
			"  tenon job run train --image debian-12 --flavor h100-1g-10gb --members 4 --retries 2 --max 4h -- python3 train.py\n" +
			"  tenon job run sweep --image debian-12 --flavor cpu-small --array 100 --parallel 4 -- sh -c 'echo task $TENON_ARRAY_INDEX'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 1 && dash != 1 {
				return usageError{fmt.Errorf("one name is expected, and a command only after --; got %q", args), cmd}
			}
			in.Name, in.Command = args[0], args[1:]
			var err error
			if in.Env, err = pairs(env, "--env"); err != nil {
				return usageError{err, cmd}
			}
			if in.Labels, err = pairs(labels, "--label"); err != nil {
				return usageError{err, cmd}
			}
			given := func(flag string, to **int, value int) {
				if cmd.Flags().Changed(flag) {
					*to = &value
				}
			}
			given("members", &in.Members, members)
			given("members-min", &in.MembersMin, least)
			given("array", &in.Array, array)
			given("parallel", &in.Parallel, parallel)
			for flag, d := range map[string]struct {
				value time.Duration
				to    **int
			}{"expected": {expected, &in.ExpectedSeconds}, "max": {most, &in.MaxSeconds}} {
				if cmd.Flags().Changed(flag) && (d.value < time.Second || d.value%time.Second != 0) {
					return usageError{fmt.Errorf("--%s takes whole seconds, from 1s: 90s, 30m, 4h", flag), cmd}
				}
				given(flag, d.to, int(d.value/time.Second))
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			j, err := c.JobCreate(cmd.Context(), a.projectName(), in, api.IdempotencyKey(randomKey()))
			if err != nil {
				return err
			}
			return a.waitForJob(cmd.Context(), c, []*api.Job{j}, "", wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Image, "image", "", "image of containers, by name or id")
	f.StringVar(&in.Flavor, "flavor", "", "flavor of each member, by name or id")
	f.StringVar(&in.Pool, "pool", "", "pool to run in; simulated nodes get work only when theirs is named")
	f.IntVar(&members, "members", 1, "members of the gang")
	f.IntVar(&least, "members-min", 0, "fewer will do, down to this; as many as fit are started")
	f.IntVar(&array, "array", 0, "so many tasks, instead of a gang")
	f.IntVar(&parallel, "parallel", 0, "of an array: at most so many tasks at once")
	f.BoolVar(&in.AcrossNodes, "across-nodes", false, "members may lie on several nodes, and can't reach each other")
	f.StringVar(&in.Priority, "priority", "", "low, normal (default) or high")
	f.IntVar(&in.Retries, "retries", 0, "how often a failure starts the gang, or the array's task, again")
	f.DurationVar(&expected, "expected", 0, "how long it will run, as far as you know")
	f.DurationVar(&most, "max", 0, "end it after so long; it has failed then")
	f.StringArrayVarP(&env, "env", "e", nil, "environment variable NAME=VALUE (repeat)")
	f.StringArrayVarP(&labels, "label", "l", nil, "label NAME=VALUE (repeat)")
	wait.flags(cmd)
	_ = cmd.MarkFlagRequired("image")
	_ = cmd.MarkFlagRequired("flavor")
	_ = cmd.RegisterFlagCompletionFunc("image", a.complete(a.imageNames))
	_ = cmd.RegisterFlagCompletionFunc("flavor", a.complete(a.flavorNames))
	_ = cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions([]string{"low", "normal", "high"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) jobNames(ctx context.Context, c *api.Client) []string {
	items, _ := c.JobListAll(ctx, a.projectName(), api.JobListOptions{})
	return namesOf(items, func(j api.Job) string { return j.Name })
}

func (a *app) jobList() *cobra.Command {
	var o api.JobListOptions
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List a project's jobs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := c.JobListAll(cmd.Context(), a.projectName(), o)
			if err != nil {
				return err
			}
			return a.printJobs(items)
		},
	}
	cmd.Flags().StringVar(&o.State, "state", "", "only those in this state")
	cmd.Flags().BoolVar(&o.All, "all", false, "deleted ones too")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{
		api.JobQueued, api.JobStarting, api.JobRunning, api.JobSucceeded, api.JobFailed, api.JobCancelled, api.JobDeleted,
	}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) printJobs(items []api.Job) error {
	return printList(a, items, "No jobs in project "+a.projectName()+".",
		[]string{"NAME", "STATE", "MEMBERS", "GPU EACH", "IMAGE", "ATTEMPT", "PRICE/HOUR", "AGE"},
		func(j api.Job) []string {
			return []string{j.Name, j.State, jobProgress(j), gpuText(j.Shape, j.Simulated), j.Image, jobAttempt(j),
				optionalMoney(j.PricePerHourMicros, j.Currency), a.age(j.CreatedAt)}
		})
}

// jobProgress is where a job's members are, in a few words.
func jobProgress(j api.Job) string {
	c := j.Counts
	what := fmt.Sprint(j.MembersMax)
	switch {
	case j.ArrayTasks > 0:
		what = fmt.Sprintf("%d tasks", j.ArrayTasks)
	case j.Size > 0 && j.Size < j.MembersMax:
		what = fmt.Sprintf("%d of %d", j.Size, j.MembersMax)
	case j.MembersMin < j.MembersMax && j.Size == 0:
		what = fmt.Sprintf("%d to %d", j.MembersMin, j.MembersMax)
	}
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{c.Active, "active"}, {c.Waiting, "waiting"}, {c.Succeeded, "done"}, {c.Failed, "failed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	if len(parts) == 0 {
		return what
	}
	return what + ": " + strings.Join(parts, ", ")
}

func jobAttempt(j api.Job) string {
	if j.ArrayTasks > 0 {
		return "-"
	}
	return fmt.Sprint(j.Attempt)
}

func (a *app) jobShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Aliases: []string{"get"}, Short: "Show one job with its members and its history", Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.jobNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			j, err := c.JobGet(cmd.Context(), a.projectName(), args[0])
			if err != nil {
				return err
			}
			return a.print(j, func(t *table) { a.describeJob(t, j) })
		},
	}
}

func (a *app) describeJob(t *table, j *api.Job) {
	line := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	line("Name", j.Name)
	line("Id", j.ID)
	line("State", fmt.Sprintf("%s for %s", j.State, a.age(j.StateAt)))
	line("Message", j.Message)
	if j.QueuePlace > 0 {
		line("Queue", fmt.Sprintf("number %d in pool %s", j.QueuePlace, j.Pool))
	}
	for _, r := range j.Reasons {
		t.row("  waits for", fmt.Sprintf("%s (%d)", first(r.Message, r.Reason), r.Count))
	}
	line("Members", jobProgress(*j))
	switch {
	case j.ArrayTasks > 0:
		line("At once", fmt.Sprint(j.ArrayParallel))
	case j.MembersMax > 1 && j.AcrossNodes:
		line("Placement", "whole, on any nodes; members don't reach each other")
	case j.MembersMax > 1:
		line("Placement", "whole, on one node; members reach each other by name")
	}
	line("Image", j.Image)
	line("Flavor", fmt.Sprintf("%s: %s, %d vCPU, %s", j.Flavor, gpuText(j.Shape, j.Simulated), j.VCPU, memory(j.MemoryMiB)))
	line("Pool", j.Pool)
	line("Command", strings.Join(j.Command, " "))
	line("Priority", j.Priority)
	if j.ExpectedSeconds != nil {
		line("Expected", (time.Duration(*j.ExpectedSeconds) * time.Second).String())
	}
	if j.MaxSeconds != nil {
		line("At most", (time.Duration(*j.MaxSeconds) * time.Second).String())
	}
	line("Retries", fmt.Sprintf("%d of %d used", j.RetriesUsed, j.Retries))
	line("Price", optionalMoney(j.PricePerHourMicros, j.Currency)+" per hour now, "+optionalMoney(j.MemberPriceMicros, j.Currency)+" for each member that runs")
	line("Created", fmt.Sprintf("%s by %s", clock(&j.CreatedAt), j.CreatedBy))
	line("Started", clock(j.StartedAt))
	line("Finished", clock(j.FinishedAt))
	for _, m := range j.Members {
		code := "-"
		if m.ExitCode != nil {
			code = fmt.Sprint(*m.ExitCode)
		}
		t.row(fmt.Sprintf("  %s", m.Instance), fmt.Sprintf("%-9s exit %-4s %s", m.State, code, m.Message))
	}
	for _, y := range j.Attempts {
		what := fmt.Sprintf("Attempt %d", y.Number)
		if y.Rank != nil {
			what = fmt.Sprintf("Task %d", *y.Rank)
		}
		t.row(what, fmt.Sprintf("%s, %s: %s", y.Outcome, clock(&y.EndedAt), y.Message))
	}
}

type jobCall func(c *api.Client, ctx context.Context, project, job string, opts ...api.CallOption) (*api.Job, error)

func (a *app) jobEnd(verb, short, goal string, do jobCall) *cobra.Command {
	var wait waiting
	cmd := &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.complete(a.jobNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var done []*api.Job
			var failed error
			for _, name := range args {
				j, err := do(c, cmd.Context(), a.projectName(), name, api.IdempotencyKey(randomKey()))
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				done = append(done, j)
			}
			if len(done) == 0 {
				return failed
			}
			return errors.Join(failed, a.waitForJob(cmd.Context(), c, done, goal, wait))
		},
	}
	if verb == "delete" {
		cmd.Aliases = []string{"rm"}
	}
	wait.flags(cmd)
	return cmd
}

// waitForJob waits until jobs are over, if it is asked to, and prints what became of
// each. A goal is the state that is no failure; empty: success.
func (a *app) waitForJob(ctx context.Context, c *api.Client, asked []*api.Job, goal string, wait waiting) error {
	out := make([]api.Job, 0, len(asked))
	var failed error
	if wait.on {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait.timeout)
		defer cancel()
	}
	for _, j := range asked {
		if wait.on {
			now, err := a.watchJob(ctx, c, j, goal, wait)
			failed = errors.Join(failed, err)
			j = now
		}
		out = append(out, *j)
	}
	if a.output != "table" && len(out) == 1 {
		return errors.Join(a.print(out[0], nil), failed)
	}
	return errors.Join(a.printJobs(out), failed)
}

func (a *app) watchJob(ctx context.Context, c *api.Client, j *api.Job, goal string, wait waiting) (*api.Job, error) {
	line := a.newStatus(j.Name)
	defer line.close()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := c.JobGet(ctx, j.ProjectID, j.ID)
		var p *api.Problem
		switch {
		case errors.As(err, &p) && p.Status == http.StatusNotFound && goal == api.JobDeleted:
			gone := *j
			gone.State = api.JobDeleted
			return &gone, nil
		case errors.As(err, &p) && p.Status < 500:
			return j, err
		case err == nil:
			j = now
			text := j.State
			if j.Message != "" {
				text += ": " + j.Message
			}
			line.say(text)
		}
		switch {
		case j.State == first(goal, api.JobSucceeded):
			return j, nil
		case goal != api.JobDeleted && (j.State == api.JobSucceeded || j.State == api.JobFailed || j.State == api.JobCancelled || j.State == api.JobDeleted):
			return j, failedInstance{fmt.Sprintf("%s %s: %s", j.Name, j.State, j.Message)}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return j, waitedTooLong{fmt.Sprintf("%s is still %s after %s; what was asked goes on. `tenon job show %[1]s` says more.", j.Name, j.State, wait.timeout)}
			}
			return j, ctx.Err()
		case <-tick.C:
		}
	}
}
