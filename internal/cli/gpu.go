package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

func (a *app) gpuShow() *cobra.Command {
	return &cobra.Command{
		Use: "show GPU", Short: "Show a card (operators)", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			g, err := c.GPUGet(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(g, func(t *table) { fillGPU(t, g) })
		},
	}
}

func fillGPU(t *table, g *api.GPU) {
	t.row("id", g.ID)
	t.row("node", g.Node)
	t.row("address", g.PCIAddress)
	t.row("uuid", g.UUID)
	model := first(g.ModelName, g.Model)
	if g.Simulated {
		model += " (simulated)"
	}
	t.row("model", model)
	t.row("state", strings.TrimSuffix(g.State+": "+g.Reason, ": "))
	t.row("mode", modeText(*g))
	if g.Wish != nil && (g.Changing || wishText(*g.Wish) != g.Mode) { // else it only says the mode again
		t.row("wished", wishText(*g.Wish))
	}
	if g.Revision > 0 {
		t.row("revision", strconv.FormatInt(g.Revision, 10))
	}
	if g.Changing {
		t.row("changing", first(g.WishReason, "its node has yet to act on it")+"; nothing new is placed on it")
	}
	if g.Checking {
		waits := "its node has yet to make it"
		if g.State == "missing" {
			waits = "it waits for the card's return"
		}
		t.row("check", "asked for; "+waits)
	}
	t.row("can be", first(strings.Join(g.Modes, ", "), "-"))
	t.row("driver", first(g.Driver, "-"))
	t.row("slots", slotBar(*g)+"  "+holders(*g))
	for _, p := range g.Missing {
		t.row("missing", fmt.Sprintf("%s at %d", p.ProfileName, p.SlotStart))
	}
	for _, s := range g.Slices {
		if s.Foreign {
			t.row("foreign", fmt.Sprintf("%s at %d (%s): not the platform's, and not touched", s.ProfileName, s.SlotStart, s.UUID))
		}
	}
	for _, v := range g.VGPUTypes {
		t.row("vGPU type", fmt.Sprintf("%s, %d now", v.Name, v.Available))
	}
	if len(g.Companions) > 0 {
		t.row("companions", strings.Join(g.Companions, ", "))
	}
	if len(g.Bundle) > 0 {
		t.row("bundle", "a VM gets it only together with "+strings.Join(g.Bundle, ", "))
	}
	if g.NotForVM {
		t.row("VMs", "none can have it")
	}
}

func modeText(g api.GPU) string {
	if parts := map[string]string{"shared": "share", "vgpu": "virtual GPU"}[g.Mode]; parts != "" && strings.HasPrefix(g.Geometry, g.Mode[:4]) {
		return fmt.Sprintf("%s, 1/%d a %s", g.Mode, g.Slots, parts)
	}
	return g.Mode
}

func wishText(w api.GPUWish) string {
	text := w.Mode
	switch {
	case w.Shares > 0:
		text += fmt.Sprintf(", %d shares", w.Shares)
	case w.VGPUType != "":
		text += ", " + w.VGPUType
	case len(w.Layout) > 0:
		places := make([]string, len(w.Layout))
		for i, p := range w.Layout {
			places[i] = fmt.Sprintf("%s at %d", p.ProfileName, p.SlotStart)
		}
		text += ": " + strings.Join(places, ", ")
	}
	return text
}

func (a *app) gpuSet() *cobra.Command {
	var mode, vgpuType string
	var layout []string
	var shares int
	var free, dry, replace bool
	var revision int64
	cmd := &cobra.Command{
		Use: "set GPU", Short: "Say what a card is to be: its mode, layout, shares or vGPU type (operators)", Args: cobra.ExactArgs(1),
		Long: "Say what a card is to be. Its node makes it so and reports what it reads back; until then nothing new is placed on the card.\n" +
			"It is refused while anything of the card is held, and while another change of it is\n" +
			"under way, unless you --replace that. --if-revision N changes it only while nobody has\n" +
			"said anything else since you saw that revision (tenon gpu show).\n\n" +
			"A layout is slices by number (1g.10gb=2) or at an exact place (3g.40gb@4), in any spelling that is known for the card.",
		Example: "  tenon gpu set GPU-4f1c… --mode mig --slice 3g.40gb@4 --slice 1g.10gb=4\n" +
			"  tenon gpu set GPU-4f1c… --mode shared --shares 4\n  tenon gpu set GPU-4f1c… --mode whole",
		RunE: func(cmd *cobra.Command, args []string) error {
			in := api.GPUUpdate{Mode: mode}
			if len(layout) > 0 || free {
				entries := []api.LayoutEntry{}
				for _, text := range layout {
					e, err := layoutEntry(text)
					if err != nil {
						return usageError{err, cmd}
					}
					entries = append(entries, e)
				}
				in.Layout = &entries
			}
			if cmd.Flags().Changed("shares") {
				in.Shares = &shares
			}
			if cmd.Flags().Changed("vgpu-type") {
				in.VGPUType = &vgpuType
			}
			if in == (api.GPUUpdate{}) {
				return usageError{errors.New("nothing is said of what the card is to be"), cmd}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			var opts []api.CallOption
			switch {
			case cmd.Flags().Changed("if-revision"):
				opts = append(opts, api.IfGeneration(revision))
			case replace:
				now, err := c.GPUGet(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if now.Changing && now.Wish != nil {
					_, _ = fmt.Fprintf(a.Err, "Replaces the change that is under way: %s.\n", wishText(*now.Wish))
				}
				opts = append(opts, api.IfGeneration(now.Revision))
			}
			g, err := c.GPUUpdate(cmd.Context(), args[0], in, dry, opts...)
			if err != nil {
				return err
			}
			if dry {
				_, _ = fmt.Fprintln(a.Err, "Dry run: nothing is changed. It would be:")
			}
			return a.print(g, func(t *table) { fillGPU(t, g) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&mode, "mode", "", "whole, mig, shared or vgpu")
	f.StringArrayVar(&layout, "slice", nil, "fixed slices: PROFILE, PROFILE=COUNT or PROFILE@SLOT (repeat)")
	f.BoolVar(&free, "free-layout", false, "no fixed slices: they are made as they are placed")
	f.IntVar(&shares, "shares", 0, "of a shared card: 2 to 8")
	f.StringVar(&vgpuType, "vgpu-type", "", "of a card in mode vgpu: one of its types; empty: MIG-backed")
	f.BoolVar(&dry, "dry-run", false, "say what would be, and who is in the way; change nothing")
	f.BoolVar(&replace, "replace", false, "also while another change is under way: replace that one")
	f.Int64Var(&revision, "if-revision", 0, "only while the card has this revision; refused when somebody said something else since")
	cmd.MarkFlagsMutuallyExclusive("slice", "free-layout")
	cmd.MarkFlagsMutuallyExclusive("replace", "if-revision")
	return cmd
}

// layoutEntry reads 1g.10gb, 1g.10gb=2 or 3g.40gb@4.
func layoutEntry(text string) (api.LayoutEntry, error) {
	at := strings.LastIndexAny(text, "=@")
	if at < 0 {
		return api.LayoutEntry{Profile: text}, nil
	}
	n, err := strconv.Atoi(text[at+1:])
	if err != nil {
		return api.LayoutEntry{}, fmt.Errorf("slice %q: %q is not a whole number", text, text[at+1:])
	}
	e := api.LayoutEntry{Profile: text[:at]}
	if text[at] == '=' {
		e.Count = &n
	} else {
		e.SlotStart = &n
	}
	return e, nil
}

func (a *app) gpuRecover() *cobra.Command {
	return &cobra.Command{
		Use: "recover GPU", Short: "Have a card that is out checked, and offered again if it passes (operators)", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			g, err := c.GPURecover(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(g, func(t *table) { fillGPU(t, g) })
		},
	}
}

func (a *app) gpuIncidents() *cobra.Command {
	return &cobra.Command{
		Use: "incidents GPU", Short: "List what went wrong with a card, newest first (operators)", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := c.GPUIncidents(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printList(a, list.Items, "Nothing went wrong with it.", []string{"AGE", "WHAT", "ACTION", "INSTANCE", "MESSAGE"},
				func(x api.GPUIncident) []string {
					what := x.Kind
					if x.XID > 0 {
						what = fmt.Sprintf("%s %d", x.Kind, x.XID)
					}
					return []string{a.age(x.At), what, x.Action, first(x.InstanceID, "-"), x.Message}
				})
		},
	}
}
