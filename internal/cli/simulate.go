package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/internal/simulate"
)

func (a *app) simulate() *cobra.Command {
	x := &simulate.Replay{}
	var nodes, pods, seeds string
	cmd := &cobra.Command{
		Use: "simulate --nodes FILE --pods FILE", Short: "Replay a trace through the placement core", Args: cobra.NoArgs,
		Long: `Replay a trace through the placement core, without a cloud: how full the cluster
gets, and how long a decision takes. Requests come one by one to empty nodes; what
has no place is dropped, and nothing leaves.

The files are CSV with the columns of Alibaba's trace openb: nodes with cpu_milli,
memory_mib, gpu and model; pods with cpu_milli, memory_mib, num_gpu, gpu_milli, and
where they are there gpu_spec and name. Each seed shuffles the pods, and draws more of them until they ask for
--arrived times the nodes' GPUs.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if x.Seeds, err = parseSeeds(seeds); err != nil {
				return usageError{err, cmd}
			}
			if err := readTrace(x, nodes, pods); err != nil {
				return err
			}
			x.Progress = a.progress()
			r, err := x.Run(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(r, func(t *table) { fillReplay(t, r) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&nodes, "nodes", "", "CSV of the nodes")
	flags.StringVar(&pods, "pods", "", "CSV of the requests")
	flags.Float64Var(&x.Arrived, "arrived", 1.3, "GPUs asked for in all, times those of the nodes")
	flags.StringVar(&seeds, "seeds", "42-51", `seeds: a range ("42-51"), a list ("1,5"), or how many`)
	flags.StringVar(&x.Policy, "policy", simulate.Policies[0], strings.Join(simulate.Policies, ", "))
	flags.IntVar(&x.Copies, "copies", 1, "copies of the cluster and of its requests, for a larger one")
	flags.BoolVar(&x.Learn, "learn", false, "let tenon count what comes, instead of knowing the mix before")
	_ = cmd.MarkFlagRequired("nodes")
	_ = cmd.MarkFlagRequired("pods")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(simulate.Policies, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(a.simulateMIG())
	return cmd
}

func (a *app) simulateMIG() *cobra.Command {
	x := &simulate.MIG{}
	var seeds string
	cmd := &cobra.Command{
		Use: "mig", Short: "Ask for MIG slices at random, and count what finds a place", Args: cobra.NoArgs,
		Long: `Ask for MIG slices at random moments, to stay for random times, on GPUs of eight
memory slots, and count what finds a place. Nothing waits and nothing moves.

The policy "pool" is no policy but a reference: all slots in one pool, where whatever
is free fits.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if x.Seeds, err = parseSeeds(seeds); err != nil {
				return usageError{err, cmd}
			}
			x.Progress = a.progress()
			r, err := x.Run(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(r, func(t *table) { fillMIG(t, r) })
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&x.GPUs, "gpus", 100, "GPUs")
	flags.StringVar(&x.Mix, "mix", "uniform", strings.Join(simulate.MixNames(), ", "))
	flags.Float64Var(&x.Load, "load", 1, "memory slots asked for at a time, times those of the GPUs")
	flags.IntVar(&x.Requests, "requests", 55_000, "requests of each seed")
	flags.Float64Var(&x.Moves, "moves", 0, "slices that may be moved for each request, to make room (0.01: one for a hundred)")
	flags.StringVar(&seeds, "seeds", "3", `seeds: a range ("42-51"), a list ("1,5"), or how many`)
	flags.StringVar(&x.Policy, "policy", simulate.MIGPolicies[0], strings.Join(simulate.MIGPolicies, ", "))
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(simulate.MIGPolicies, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("mix", cobra.FixedCompletions(simulate.MixNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// progress tells a person who waits how far it is; nobody else.
func (a *app) progress() func(done, all int) {
	if _, is := terminal(a.Err); !is {
		return nil
	}
	return func(done, all int) {
		end := ""
		if done == all {
			end = "\n"
		}
		_, _ = fmt.Fprintf(a.Err, "\rseed %d of %d%s", done, all, end)
	}
}

func readTrace(x *simulate.Replay, nodes, pods string) error {
	models := &simulate.Models{}
	for _, f := range []struct {
		path string
		read func(*os.File) error
	}{
		{nodes, func(f *os.File) (err error) { x.Nodes, err = simulate.ReadNodes(f, models); return err }},
		{pods, func(f *os.File) (err error) { x.Pods, err = simulate.ReadPods(f, models); return err }},
	} {
		in, err := os.Open(f.path)
		if err != nil {
			return err
		}
		err = f.read(in)
		_ = in.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

const maxSeeds = 1000

// parseSeeds reads "42-51", "1,5" or how many from 1 on.
func parseSeeds(text string) ([]int64, error) {
	bad := fmt.Errorf(`--seeds is a range ("42-51"), a list ("1,5"), or how many (at most %d), not %q`, maxSeeds, text)
	number := func(s string) (int64, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return 0, errors.Join(bad, err)
		}
		return n, nil
	}
	var out []int64
	from, to, isRange := strings.Cut(text, "-")
	switch {
	case isRange:
		first, err := number(from)
		last, err2 := number(to)
		if err != nil || err2 != nil || last < first || last-first >= maxSeeds {
			return nil, bad
		}
		for s := first; s <= last; s++ {
			out = append(out, s)
		}
	case strings.Contains(text, ","):
		for part := range strings.SplitSeq(text, ",") {
			s, err := number(part)
			if err != nil || len(out) == maxSeeds {
				return nil, bad
			}
			out = append(out, s)
		}
	default:
		n, err := number(text)
		if err != nil || n < 1 || n > maxSeeds {
			return nil, bad
		}
		for s := int64(1); s <= n; s++ {
			out = append(out, s)
		}
	}
	return out, nil
}

func fillReplay(t *table, r *simulate.ReplayReport) {
	t.row("policy", r.Policy)
	t.row("cluster", fmt.Sprintf("%d nodes, %d GPUs", r.Nodes, r.GPUs))
	for _, at := range []string{"at_80", "at_90", "at_100", "at_110", "at_120", "at_130"} {
		if v, ok := r.Allocation[at]; ok {
			low, high := 100.0, 0.0
			for _, s := range r.PerSeed {
				low, high = min(low, s.Allocation[at]), max(high, s.Allocation[at])
			}
			t.row("allocated "+strings.Replace(at, "_", " ", 1)+" %", fmt.Sprintf("%.2f %% (%.2f to %.2f over %d seeds)", v, low, high, len(r.PerSeed)))
		}
	}
	fillSpeed(t, r.Speed)
}

func fillMIG(t *table, r *simulate.MIGReport) {
	t.row("policy", r.Policy)
	t.row("cluster", fmt.Sprintf("%d GPUs, mix %s, load %g", r.GPUs, r.Mix, r.Load))
	t.row("accepted", fmt.Sprintf("%.2f %% of the requests, %.2f %% of their memory, over %d seeds", r.Accepted, r.AcceptedMemory, len(r.PerSeed)))
	if r.Moves > 0 {
		t.row("moved", fmt.Sprintf("%.2f slices for a hundred requests", 100*r.Moves))
	}
	fillSpeed(t, r.Speed)
}

func fillSpeed(t *table, s simulate.Speed) {
	t.row("decisions", fmt.Sprintf("%.0f/s, of them %.0f/s placed; %.0f/s in the fastest seed", s.DecisionsPerSecond, s.PlacementsPerSecond, s.BestPerSecond))
	if s.PerCPUSecond > 0 {
		t.row("by CPU time", fmt.Sprintf("%.0f/s", s.PerCPUSecond))
	}
	t.row("time", fmt.Sprintf("median %.1f µs, 99th percentile %.1f µs", s.P50, s.P99))
	t.row("calibration", fmt.Sprintf("%.0f loops/s", s.Calibration))
}
