package devcloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/durable"
)

// simulatedPool is where the simulated fleet is; work goes there by name only.
const simulatedPool = "simulated"

func (l Layout) fleetFolder() string { return filepath.Join(l.State, "fleet") }

// startFleet runs the simulated nodes in a process of their own. The fleet may
// have had another size in the run before.
func (s *Supervisor) startFleet(ctx context.Context, client *api.Client, o Options) error {
	machines, err := sim.Fleet(o.SimulatedNodes)
	if err != nil {
		return err
	}
	if err := s.dropSurplus(ctx, client, machines); err != nil {
		// They are shown as lost; the cloud works without their removal.
		s.Console.Say("  %v", err)
	}
	if len(machines) == 0 {
		return nil
	}
	tokens, err := s.fleetTokens(ctx, client, machines)
	if err != nil {
		return err
	}
	if err := s.start(ctx, "Simulated fleet", s.fleetService(o, tokens)); err != nil {
		return err
	}
	return s.waitForFleet(ctx, client, len(machines))
}

// fleetTokens makes a join token for each node that has no identity yet and
// writes them to a file; its name is empty when nobody needs one.
func (s *Supervisor) fleetTokens(ctx context.Context, client *api.Client, machines []sim.Machine) (string, error) {
	var without []string
	for _, m := range machines {
		if !exists(filepath.Join(s.fleetFolder(), m.Name, "identity.json")) {
			without = append(without, m.Name)
		}
	}
	path := filepath.Join(s.Run, "fleet-join-tokens")
	if len(without) == 0 {
		return path, nil
	}
	lines, errs := make([]string, len(without)), make([]error, len(without))
	next := make(chan int)
	var making sync.WaitGroup
	for range 8 {
		making.Go(func() {
			for i := range next {
				made, err := client.JoinTokenCreate(ctx, api.JoinTokenCreate{Pool: simulatedPool})
				if errs[i] = err; err == nil {
					lines[i] = without[i] + " " + made.JoinToken + "\n"
				}
			}
		})
	}
	for i := range without {
		next <- i
	}
	close(next)
	making.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("make join tokens for the simulated nodes: %w", errors.Join(slices.Compact(errs)...))
	}
	return path, durable.WriteFile(path, []byte(strings.Join(lines, "")), 0o600)
}

func (s *Supervisor) fleetService(o Options, tokens string) Service {
	return Service{
		Name: "fleet",
		Argv: []string{o.agent(), "fleet", "-state-dir", s.fleetFolder()},
		Env: []string{
			// Not an argument: a survivor of another size must be found, to be replaced.
			"TENON_AGENT_NODES=" + strconv.Itoa(o.SimulatedNodes),
			"TENON_AGENT_DOOR_URL=https://" + s.nodeAddress(),
			"TENON_AGENT_CA_FILE=" + s.nodeCA(),
			"TENON_AGENT_JOIN_TOKENS_FILE=" + tokens,
			"TENON_AGENT_SEED=" + s.ID,
			"TENON_AGENT_LOG_FORMAT=json",
		},
		StopSignal: syscall.SIGTERM,
		StopGrace:  10 * time.Second,
	}
}

// waitForFleet waits until most nodes have reported; the rest may go on after.
func (s *Supervisor) waitForFleet(ctx context.Context, client *api.Client, want int) error {
	done := s.Console.Step("Simulated nodes")
	limit, cancel := context.WithTimeout(ctx, 30*time.Second+time.Duration(want)*100*time.Millisecond)
	defer cancel()
	tick := time.NewTicker(time.Duration(200+2*want) * time.Millisecond)
	defer tick.Stop()
	for {
		nodes, err := simulatedNodes(limit, client)
		ready, gpus := 0, 0
		for _, n := range nodes {
			if n.State == "ready" && len(n.GPUs) > 0 {
				ready++
				gpus += len(n.GPUs)
			}
		}
		if ready >= want {
			done(fmt.Sprintf("%d ready, %d GPUs (simulated)", ready, gpus))
			return nil
		}
		s.Console.Progress(fmt.Sprintf("%d of %d ready", ready, want))
		select {
		case <-ctx.Done():
			done("interrupted")
			return ctx.Err()
		case <-limit.Done():
			done(fmt.Sprintf("%d of %d ready; %s says: %s", ready, want, s.logFile("fleet"), lastLine(s.logFile("fleet"))))
			return nil //nolint:nilerr // the cloud works without them
		case <-tick.C:
		}
		if err != nil && limit.Err() == nil {
			s.Console.Progress(err.Error())
		}
	}
}

// simulatedNodes reads every node of the simulated pool.
func simulatedNodes(ctx context.Context, client *api.Client) ([]api.Node, error) {
	var out []api.Node
	for o := (api.PageOptions{Limit: 200}); ; {
		page, err := client.NodeList(ctx, o)
		if err != nil {
			return out, err
		}
		for _, n := range page.Items {
			if n.Pool == simulatedPool {
				out = append(out, n)
			}
		}
		if page.NextPageToken == "" {
			return out, nil
		}
		o.PageToken = page.NextPageToken
	}
}

// surplusWithin is how long a node that is no longer simulated is waited for: it
// counts as late a while after its last report.
const surplusWithin = 2 * time.Minute

// dropSurplus gives the nodes up, in the background, that an earlier run
// simulated and this one does not: they would be lost nodes for ever. Nothing
// runs on them, so it says for the operator that they are off.
func (s *Supervisor) dropSurplus(ctx context.Context, client *api.Client, machines []sim.Machine) error {
	names := map[string]bool{}
	for _, m := range machines {
		names[m.Name] = true
	}
	folders, err := os.ReadDir(s.fleetFolder())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for simulated nodes of an earlier run: %w", err)
	}
	var surplus []string
	for _, f := range folders {
		if f.IsDir() && !names[f.Name()] {
			surplus = append(surplus, f.Name())
		}
	}
	if len(surplus) == 0 {
		return nil
	}
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, surplusWithin+time.Duration(len(surplus))*100*time.Millisecond)
		defer cancel()
		for i, name := range surplus {
			if err := s.giveUp(ctx, client, name); err != nil {
				if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
					s.Console.Say("%d nodes are no longer simulated and stay on the list; `tenon node fence %s` and `tenon node forget %s` give one up (%v)",
						len(surplus)-i, name, name, err)
				}
				return
			}
		}
		s.Console.Say("%d simulated nodes of an earlier run were given up", len(surplus))
	})
	return nil
}

// giveUp forgets one node, once it is late, and then deletes its folder.
func (s *Supervisor) giveUp(ctx context.Context, client *api.Client, name string) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		n, err := client.NodeGet(ctx, name)
		switch {
		case errors.Is(err, &api.Problem{Code: "not_found"}):
			return os.RemoveAll(filepath.Join(s.fleetFolder(), name))
		case err != nil:
		case n.State == "late":
			if _, err = client.NodeFence(ctx, name); err == nil {
				err = client.NodeForget(ctx, name)
			}
		case n.State == "lost":
			err = client.NodeForget(ctx, name)
		default:
			err = fmt.Errorf("it is still %s", n.State)
		}
		if err == nil {
			continue // the look that finds it gone is next
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
