package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// cardMoved refuses to take another operator's word back unseen: whoever names the
// revision that they saw is refused when it is no longer the one, and whoever names
// none while what another said is still being carried out.
func cardMoved(g cloud.GPU, seen *int64) error {
	switch {
	case seen != nil && *seen != g.Revision:
		text := "said nothing of it"
		if g.Wish.Mode != "" {
			text = "said " + wishText(g)
		}
		return cloud.E(cloud.KindPrecondition, "card_changed", "GPU %s on node %s has changed since you read it: somebody %s", g.PCIAddress, g.NodeName, text).
			WithHint("read it again, then decide").With("wish", wishShown(g)).With("revision", g.Revision)
	case seen == nil && g.Changing && g.Wish.Mode != "":
		why := ""
		if g.WishReason != "" {
			why = "; it is not so yet: " + g.WishReason
		}
		return cloud.E(cloud.KindConflict, "card_changing", "GPU %s on node %s is already being changed, to %s%s", g.PCIAddress, g.NodeName, wishText(g), why).
			WithHint("wait until it is done, or replace that change: send its ETag, \"%d\", in If-Match (tenon gpu set --replace)", g.Revision).
			With("wish", wishShown(g)).With("revision", g.Revision)
	}
	return nil
}

// wishText says what a card is wished to be, in a line.
func wishText(g cloud.GPU) string {
	w := g.Wish
	text := "mode " + string(w.Mode)
	switch {
	case w.Shares > 0:
		text += fmt.Sprintf(", %d shares", w.Shares)
	case w.VGPUType != "":
		text += ", " + w.VGPUType
	case len(w.Layout) > 0:
		places := make([]string, len(w.Layout))
		for i, p := range w.Layout {
			places[i] = fmt.Sprintf("%s at %d", gpu.DisplayName(g.Model, p.Profile), p.SlotStart)
		}
		text += ": " + strings.Join(places, ", ")
	}
	if g.WishedAt != nil {
		text += ", on " + g.WishedAt.UTC().Format("2006-01-02 at 15:04:05 UTC")
	}
	return text
}

// shownPlace and shownWish are a wish as the API writes it.
type shownPlace struct {
	Profile     string `json:"profile"`
	ProfileName string `json:"profile_name"`
	SlotStart   int    `json:"slot_start"`
	SlotEnd     int    `json:"slot_end"`
}

type shownWish struct {
	Mode     cloud.GPUMode `json:"mode"`
	Layout   []shownPlace  `json:"layout"`
	Shares   int           `json:"shares,omitempty"`
	VGPUType string        `json:"vgpu_type,omitempty"`
	WishedAt *time.Time    `json:"wished_at,omitempty"`
}

func wishShown(g cloud.GPU) *shownWish {
	if g.Wish.Mode == "" {
		return nil
	}
	out := &shownWish{Mode: g.Wish.Mode, Layout: []shownPlace{}, Shares: g.Wish.Shares, VGPUType: g.Wish.VGPUType, WishedAt: g.WishedAt}
	for _, p := range g.Wish.Layout {
		out.Layout = append(out.Layout, shownPlace{p.Profile, gpu.DisplayName(g.Model, p.Profile), p.SlotStart, p.SlotEnd})
	}
	return out
}
