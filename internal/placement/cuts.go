package placement

import "github.com/tenon-cloud/tenon/internal/gpu"

// layoutValue is what a profile's best start on a layout is worth, within one
// decision.
type layoutValue struct {
	stamp uint32
	ok    bool
	start int8
	to    int32
	value float64
}

// placeCut is a slice or an equal part on a card, and what it is worth.
type placeCut struct {
	pick
	value  float64
	layout int32
}

// better orders places for slices, the most valuable first. Among equals the lower
// layout wins, so that cards that are cut alike are as one.
func (p placeCut) better(o placeCut) int {
	switch {
	case p.value != o.value:
		if p.value > o.value {
			return 1
		}
		return -1
	case p.layout != o.layout:
		if p.layout < o.layout {
			return 1
		}
		return -1
	}
	return 0
}

// bestCut finds the node and the cards for a want of slices or equal parts. -1:
// there are none.
func (b *Board) bestCut(id int) int {
	w := b.classes[id].want
	b.table.Refresh(id)
	b.fixPrices(w)
	if w.shape.GPUCount > 1 {
		return b.bestCuts(id, w)
	}
	best, at := placeCut{}, -1
	for i := range b.nodes {
		key := b.table.Key(id, i)
		if key == 0 {
			continue
		}
		n := &b.nodes[i]
		for k := range n.cuts {
			x := &n.cuts[k]
			if c := &n.gpus[x.card]; !w.suits(c) || !w.joins(c) {
				continue
			}
			p, ok := b.placeOn(w, &n.gpus[x.card], int(x.card), x.layout, n.gpus[x.card].used)
			if !ok {
				continue
			}
			if at < 0 {
				best, at = p, i
			} else if d := p.better(best); d > 0 || d == 0 && key > b.table.Key(id, at) {
				best, at = p, i
			}
		}
	}
	if at >= 0 {
		b.picks = append(b.picks[:0], best.pick)
	}
	return at
}

// fixPrices begins a decision.
func (b *Board) fixPrices(w *want) {
	b.stamp++
	for m, p := range b.prices {
		if p != nil && w.makes>>m&1 != 0 {
			p.Fix()
		}
	}
}

// placeOn is the best place for one slice or part on a card in a state.
func (b *Board) placeOn(w *want, c *card, i int, layout int32, used gpu.Used) (placeCut, bool) {
	cut := w.cut(c.geo)
	if cut == nil || cut.Profile.Media && used.Media {
		return placeCut{}, false
	}
	if layout >= 0 && c.src.Fixed == nil {
		v := b.valueOf(c, layout, w.profile(c.geo))
		return placeCut{pick{i, int(v.start)}, v.value, layout}, v.ok
	}
	start, _, ok := c.bestStart(cut, used)
	value := -float64(c.geo.Free(used))
	if p := b.prices[c.make]; p != nil {
		value = value*1e-5 - p.Place(w.profile(c.geo))
	}
	return placeCut{pick{i, start}, value, -1}, ok
}

// valueOf looks a layout up, or finds it once for each decision.
func (b *Board) valueOf(c *card, layout int32, profile int) layoutValue {
	// Within a decision all cards are of the want's makes and its one profile; two
	// makes of one want have prices of their own.
	at := int(layout)*len(b.prices) + int(c.make)
	for len(b.values) <= at {
		b.values = append(b.values, layoutValue{})
	}
	v := &b.values[at]
	if v.stamp != b.stamp {
		*v = layoutValue{stamp: b.stamp}
		value, start, to, ok := b.prices[c.make].Best(layout, profile)
		v.value, v.start, v.to, v.ok = value, int8(start), to, ok
	}
	return *v
}

// bestCuts is bestCut for several slices or parts of one node, taken one by one:
// those of one class never get in each other's way, so that this finds a place
// whenever there is one.
func (b *Board) bestCuts(id int, w *want) int {
	var best []pick
	value, at := 0.0, -1
	for i := range b.nodes {
		key := b.table.Key(id, i)
		if key == 0 {
			continue
		}
		v, picks, ok := b.cutMany(&b.nodes[i], w)
		if ok && (at < 0 || v > value || v == value && key > b.table.Key(id, at)) {
			best, value, at = append(best[:0], picks...), v, i
		}
	}
	if at >= 0 {
		b.picks = append(b.picks[:0], best...)
	}
	return at
}

func (b *Board) cutMany(n *node, w *want) (value float64, picks []pick, ok bool) {
	type now struct {
		used   gpu.Used
		layout int32
	}
	cards := make([]now, len(n.gpus))
	for i := range n.gpus {
		cards[i] = now{n.gpus[i].used, n.gpus[i].layout}
	}
	for len(picks) < w.shape.GPUCount {
		best, found := placeCut{}, false
		for i := range n.gpus {
			c := &n.gpus[i]
			if !c.ready || !w.suits(c) || !w.joins(c) {
				continue
			}
			if p, ok := b.placeOn(w, c, i, cards[i].layout, cards[i].used); ok && (!found || p.better(best) > 0) {
				best, found = p, true
			}
		}
		if !found {
			return 0, nil, false
		}
		c, x := &n.gpus[best.card], &cards[best.card]
		if x.layout >= 0 && c.src.Fixed == nil {
			x.layout = b.valueOf(c, x.layout, w.profile(c.geo)).to
		}
		x.used = w.cut(c.geo).Take(x.used, best.start)
		picks = append(picks, best.pick)
		value += best.value
	}
	return value, picks, true
}
