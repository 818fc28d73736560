package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

var errNotNamed = errors.New("the name was not typed: nothing was changed")

func (a *app) node() *cobra.Command {
	cmd := group("node", "See, drain, fence and forget hypervisors (operators)", "nodes")
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the nodes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			items, err := api.ListAll(cmd.Context(), func(o api.PageOptions) (*api.Page[api.Node], error) { return c.NodeList(cmd.Context(), o) })
			if err != nil {
				return err
			}
			return a.printNodes(items)
		},
	},
		a.nodeOne("show", "Show a node", func(ctx context.Context, c *api.Client, name string) error {
			n, err := c.NodeGet(ctx, name)
			if err != nil {
				return err
			}
			return a.print(n, func(t *table) { a.fillNode(t, n) })
		}),
		a.nodeOne("stays", "List what a drain leaves on a node, why, and what would move it", a.printStays),
		a.nodeDrain(),
		a.nodeAction("undrain", "Take a drain back", (*api.Client).NodeUndrain),
		a.nodeFence(), a.nodeForget(), a.orphan())
	return cmd
}

func (a *app) printNodes(nodes []api.Node) error {
	return printList(a, nodes, "No nodes have joined yet.",
		[]string{"NAME", "POOL", "STATE", "GPUS", "VCPU", "MEMORY", "SEEN"},
		func(n api.Node) []string {
			return []string{n.Name, n.Pool, nodeState(n), fmt.Sprint(len(n.GPUs)),
				fmt.Sprintf("%d of %.0f", n.UsedVCPU, float64(n.VCPU)*n.CPUOvercommit), memory(n.UsedMemoryMiB) + " of " + memory(n.MemoryMiB), a.seen(n)}
		})
}

func nodeState(n api.Node) string {
	state := n.State
	if n.FencedAt != nil {
		state += ", fenced"
	}
	if n.Drained {
		state += ", drained"
	}
	if n.Simulated {
		state += ", simulated"
	}
	return state
}

func (a *app) seen(n api.Node) string {
	if n.LastSeenAt == nil {
		return "never"
	}
	return a.age(*n.LastSeenAt) + " ago"
}

func (a *app) fillNode(t *table, n *api.Node) {
	t.row("name", n.Name)
	t.row("id", n.ID)
	t.row("pool", n.Pool)
	t.row("state", nodeState(*n))
	t.row("seen", a.seen(*n))
	if n.FencedAt != nil {
		t.row("fenced", clock(n.FencedAt)+", by "+map[string]string{"operator": "an operator, who confirmed that it is off", "watchdog": "its own time-out"}[n.FencedBy])
	}
	t.row("runs", first(strings.Join(n.Kinds, ", "), "-"))
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		t.row(key, n.Labels[key])
	}
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		t.row("driver "+name, n.Drivers[name])
	}
	t.row("watchdog", map[bool]string{true: "yes", false: "no: what should restart elsewhere waits until you confirm that it is off"}[n.Watchdog])
	t.row("GPUs", fmt.Sprint(len(n.GPUs)))
	t.row("vCPU", fmt.Sprintf("%d of %.0f", n.UsedVCPU, float64(n.VCPU)*n.CPUOvercommit))
	t.row("memory", memory(n.UsedMemoryMiB)+" of "+memory(n.MemoryMiB))
	t.row("agent", first(n.AgentVersion, "-"))
	t.row("assignment", fmt.Sprintf("%d, it holds %d", n.Generation, n.AckGeneration))
	if s := n.Stays; s != nil {
		t.row("stays", fmt.Sprintf("%d running, %d stopping, %d held, %d volumes, %d fenced, %d orphans", s.Running, s.Stopping, s.Held, s.Volumes, s.FencedClaims, s.Orphans))
	}
	for _, x := range n.Excluded {
		t.row("not offered", fmt.Sprintf("%s (%s:%s): %s", x.PCIAddress, x.Vendor, x.Device, x.Reason))
	}
	if len(n.Partitions) > 0 {
		t.row("partitions", partitionsText(n.Partitions))
	}
	for _, o := range n.Orphans {
		t.row("orphan", fmt.Sprintf("%s (%s, %s)", o.ID, o.Driver, o.What))
	}
}

// partitionsText counts a board's partitions by size: "1 of 8 GPUs, 2 of 4".
func partitionsText(list []api.Partition) string {
	counts := map[int]int{}
	for _, p := range list {
		counts[len(p.GPUs)]++
	}
	var out []string
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(counts))) {
		out = append(out, fmt.Sprintf("%d of %d", counts[size], size))
	}
	return strings.Join(out, ", ") + " GPUs: a VM gets exactly one"
}

// nodeOne makes a command about one node.
func (a *app) nodeOne(verb, short string, run func(context.Context, *api.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.complete(a.nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, args[0])
		},
	}
}

func (a *app) printStays(ctx context.Context, c *api.Client, name string) error {
	stays, err := c.NodeStays(ctx, name)
	if err != nil {
		return err
	}
	return printList(a, stays.Items, "Nothing stays on "+name+".", []string{"WHAT", "ORGANISATION", "KIND", "STATE", "WHY", "WHAT WOULD MOVE IT"},
		func(s api.NodeStay) []string {
			return []string{first(s.Instance, s.InstanceID, s.Orphan), first(s.Org, "-"), s.Kind, s.State, s.Reason, s.Message}
		})
}

func (a *app) nodeDrain() *cobra.Command {
	return &cobra.Command{
		Use: "drain NAME...", Short: "Place nothing new on nodes, and list what stays", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.complete(a.nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			for _, name := range args {
				n, err := c.NodeDrain(cmd.Context(), name)
				if err != nil {
					return err
				}
				if a.output != "table" {
					if err := a.print(n, nil); err != nil {
						return err
					}
					continue
				}
				_, _ = fmt.Fprintf(a.Err, "%s is drained: nothing new is placed on it, and what runs there goes on.\n", n.Name)
				if err := a.printStays(cmd.Context(), c, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) nodeFence() *cobra.Command {
	var yes bool
	var cmd *cobra.Command
	cmd = a.nodeOne("fence", "Confirm that a node is switched off", func(ctx context.Context, c *api.Client, name string) error {
		ask := fmt.Sprintf("Have you made sure that %s is switched off? What may restart elsewhere does so at once, and would run twice if it still ran there.", name)
		if err := a.typed(cmd, ask, name, yes); err != nil {
			return err
		}
		n, err := c.NodeFence(ctx, name)
		if err != nil {
			return err
		}
		if a.output != "table" {
			return a.print(n, nil)
		}
		return a.printNodes([]api.Node{*n})
	})
	cmd.Long = "Say that you have made sure that a node is off: not only unreachable. Instances that may\nrestart elsewhere (on_node_loss is restart) and leave no data there do so at once. The node\nis refused this while it reports. It asks for the node's name; without a terminal it wants --yes."
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	return cmd
}

func (a *app) nodeForget() *cobra.Command {
	var yes bool
	var cmd *cobra.Command
	cmd = a.nodeOne("forget", "Give a node up that will not come back", func(ctx context.Context, c *api.Client, name string) error {
		if err := a.typed(cmd, fmt.Sprintf("Forget %s for good? What ran there ends, and data that lies there (disks, home folders) is lost.", name), name, yes); err != nil {
			return err
		}
		if err := c.NodeForget(ctx, name); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.Err, "%s is forgotten.\n", name)
		return err
	})
	cmd.Long = "Give up a node that is lost or confirmed off. What it held is free, what ran there starts\nelsewhere if it may and leaves no data behind, and ends otherwise; data that lies there is\nlost; its certificates end. It asks for the node's name; without a terminal it wants --yes."
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	return cmd
}

// typed asks for a name before what can't be taken back, unless yes is given:
// without a terminal, where nobody can be asked, it must be.
func (a *app) typed(cmd *cobra.Command, ask, name string, yes bool) error {
	if yes {
		return nil
	}
	if _, isTerminal := terminal(a.In); !isTerminal {
		return usageError{errors.New("this can't be taken back, and there is no terminal to ask at: give --yes if you are sure"), cmd}
	}
	_, _ = fmt.Fprintf(a.Err, "%s\nType its name to go on: ", ask)
	answer, _ := readLine(bufio.NewReader(a.In))
	if strings.TrimSpace(answer) != name {
		return errNotNamed
	}
	return nil
}

func (a *app) orphan() *cobra.Command {
	cmd := group("orphan", "Deal with what a node has and nobody assigned", "orphans")
	var yes bool
	remove := &cobra.Command{
		Use: "remove NODE ID", Aliases: []string{"rm"}, Short: "Let a node end an orphan, with its data", Args: cobra.ExactArgs(2),
		Long: "Let a node end an orphan, with its data. It asks for the orphan's id; without a\nterminal it wants --yes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := a.typed(cmd, fmt.Sprintf("Let %s destroy %s, with whatever data it has?", args[0], args[1]), args[1], yes); err != nil {
				return err
			}
			if err := c.OrphanRemove(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Err, "%s removes %s; its alarm goes when the node has.\n", args[0], args[1])
			return err
		},
	}
	remove.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	cmd.AddCommand(remove)
	return cmd
}

func (a *app) nodeAction(verb, short string, call func(*api.Client, context.Context, string) (*api.Node, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.complete(a.nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var nodes []api.Node
			for _, name := range args {
				n, err := call(c, cmd.Context(), name)
				if err != nil {
					return err
				}
				nodes = append(nodes, *n)
			}
			return a.printNodes(nodes)
		},
	}
}
