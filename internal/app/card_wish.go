package app

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// wishFor makes the wish that a request asks for, on top of the present one. What
// can't be names the entry that can't; at is where the request begins.
func wishFor(g cloud.GPU, in CardInput, at string) (cloud.CardWish, error) {
	var fields []cloud.Field
	bad := func(where, message string, value any) {
		fields = append(fields, cloud.Field{Location: at + where, Message: message, Value: value})
	}
	model, err := gpu.ModelByKey(g.Model)
	if err != nil {
		return cloud.CardWish{}, cloud.E(cloud.KindConflict, "gpu_model_unknown", "GPU %s on node %s is of model %q, which this control plane does not know", g.PCIAddress, g.NodeName, g.Model).
			WithHint("update the control plane")
	}
	want := present(g)
	if in.Mode != nil && *in.Mode != want.Mode {
		want = cloud.CardWish{Mode: *in.Mode}
	}
	switch want.Mode {
	case cloud.ModeWhole, cloud.ModeMIG, cloud.ModeShared, cloud.ModeVGPU:
	default:
		return want, cloud.Invalid(cloud.Field{Location: at + "mode", Message: "one of whole, mig, shared, vgpu", Value: want.Mode})
	}
	if len(g.Modes) > 0 && !slices.Contains(g.Modes, want.Mode) {
		bad("mode", fmt.Sprintf("on its node this GPU can be %s", modeWords(g.Modes)), want.Mode)
	}
	parts := 0
	switch want.Mode {
	case cloud.ModeShared:
		if in.Shares != nil {
			want.Shares = *in.Shares
		}
		if parts = want.Shares; parts < 2 || parts > gpu.MaxShares {
			message := "a GPU is shared in " + shareWords()
			if in.Shares == nil {
				message = "say into how many shares: " + shareWords()
			}
			bad("shares", message, parts)
		}
	case cloud.ModeVGPU:
		if in.VGPUType != nil {
			want.VGPUType = *in.VGPUType
		}
		if want.VGPUType != "" {
			var message string
			if parts, message = partsOf(g, want.VGPUType); message != "" {
				bad("vgpu_type", message, want.VGPUType)
			}
		} else if model.Geometry == gpu.Plain {
			bad("vgpu_type", "one of the types that its host driver offers: "+typeWords(g), "")
		}
	}
	if in.Shares != nil && *in.Shares != 0 && want.Mode != cloud.ModeShared {
		bad("shares", "only a shared GPU has shares", *in.Shares)
	}
	if in.VGPUType != nil && *in.VGPUType != "" && want.Mode != cloud.ModeVGPU {
		bad("vgpu_type", "only a GPU in mode vgpu has a type", *in.VGPUType)
	}
	if len(fields) == 0 {
		if want.Geometry, err = model.GeometryIn(want.Mode, parts); err != nil {
			bad("mode", err.Error(), want.Mode)
		}
	}
	if in.Layout != nil {
		cut := want.Mode == cloud.ModeMIG || want.Mode == cloud.ModeVGPU && want.VGPUType == ""
		switch {
		case len(*in.Layout) > 0 && !cut:
			bad("layout", "only a GPU that is cut by MIG has a layout", nil)
		case model.Geometry == gpu.Plain && len(*in.Layout) > 0:
			bad("layout", model.Name+" has no MIG", nil)
		default:
			var wrong []cloud.Field
			want.Layout, wrong = layoutOf(model, *in.Layout, at)
			fields = append(fields, wrong...)
		}
	}
	if len(fields) > 0 {
		return want, cloud.Invalid(fields...)
	}
	return want, nil
}

// present is what a card is wished to be or, without a wish, what it is.
func present(g cloud.GPU) cloud.CardWish {
	if g.Wish.Mode != "" {
		return g.Wish
	}
	w := cloud.CardWish{Mode: g.Mode, Geometry: g.Geometry}
	if mode, n, even := gpu.EvenOf(g.Geometry); even && mode == cloud.ModeShared {
		w.Shares = n
	}
	return w
}

func sameWish(g cloud.GPU, w cloud.CardWish) bool {
	p := present(g)
	return p.Mode == w.Mode && p.Geometry == w.Geometry && p.Shares == w.Shares && p.VGPUType == w.VGPUType && slices.Equal(p.Layout, w.Layout)
}

// partsOf is into how many virtual GPUs a type divides a card.
func partsOf(g cloud.GPU, name string) (parts int, message string) {
	i := slices.IndexFunc(g.VGPUTypes, func(t cloud.VGPUType) bool { return t.Name == name })
	if i < 0 {
		return 0, "one of the types that its host driver offers: " + typeWords(g)
	}
	if g.Wish.VGPUType == name && g.Mode == cloud.ModeVGPU { // some of it may be taken now
		if _, n, even := gpu.EvenOf(g.Geometry); even {
			return n, ""
		}
	}
	if parts = g.VGPUTypes[i].Available; parts < 1 {
		return 0, "its host driver can make none of this type now"
	}
	return min(parts, 32), ""
}

// shareWords lists into how many shares a GPU can be cut.
func shareWords() string {
	words := make([]string, 0, gpu.MaxShares)
	for n := 2; n < gpu.MaxShares; n++ {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ") + " or " + strconv.Itoa(gpu.MaxShares)
}

func typeWords(g cloud.GPU) string {
	if len(g.VGPUTypes) == 0 {
		return "it offers none"
	}
	names := make([]string, len(g.VGPUTypes))
	for i, t := range g.VGPUTypes {
		names[i] = t.Name
	}
	return strings.Join(names, ", ")
}

func modeWords(modes []cloud.GPUMode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = string(m)
	}
	return strings.Join(words, " or ")
}

// layoutOf finds the exact places of a layout (cases C10, C11). A spelling that is
// not known for the card is never another profile.
func layoutOf(model *gpu.Model, entries []LayoutEntry, at string) ([]cloud.SlicePlace, []cloud.Field) {
	var fields []cloud.Field
	where := func(i int, of string) string { return fmt.Sprintf("%slayout[%d].%s", at, i, of) }
	asks := make([]gpu.Ask, len(entries))
	for i, e := range entries {
		class, err := model.ClassOf(e.Profile)
		if err != nil {
			fields = append(fields, cloud.Field{Location: where(i, "profile"), Message: err.Error(), Value: e.Profile})
			continue
		}
		asks[i] = gpu.Ask{Class: class, Name: gpu.DisplayName(model.Key, class), Count: 1, Start: -1}
		if e.Count != nil {
			asks[i].Count = *e.Count
		}
		if e.SlotStart != nil {
			asks[i].Start = max(0, *e.SlotStart)
			switch {
			case asks[i].Count != 1:
				fields = append(fields, cloud.Field{Location: where(i, "count"), Message: "an entry with a slot_start is one slice: leave count out", Value: asks[i].Count})
			case *e.SlotStart < 0:
				fields = append(fields, cloud.Field{Location: where(i, "slot_start"), Message: "a slot from 0; leave it out for any", Value: *e.SlotStart})
			}
		}
	}
	if len(fields) > 0 {
		return nil, fields
	}
	geometry, err := gpu.GeometryByName(model.Geometry)
	if err != nil {
		return nil, []cloud.Field{{Location: at + "layout", Message: err.Error()}}
	}
	places, err := geometry.Arrange(asks)
	if bad := (*gpu.AskError)(nil); errors.As(err, &bad) {
		value := any(entries[bad.Entry].Profile)
		switch bad.Of {
		case gpu.AskCount:
			value = asks[bad.Entry].Count
		case gpu.AskStart:
			value = asks[bad.Entry].Start
		}
		return nil, []cloud.Field{{Location: where(bad.Entry, bad.Of), Message: bad.Reason, Value: value}}
	}
	if err != nil {
		return nil, []cloud.Field{{Location: at + "layout", Message: err.Error()}}
	}
	out := make([]cloud.SlicePlace, len(places))
	for i, p := range places {
		profile, _ := geometry.Profile(p.Class)
		out[i] = cloud.SlicePlace{Profile: p.Class, SlotStart: p.Start, SlotEnd: p.Start + profile.Slots}
	}
	return out, nil
}
