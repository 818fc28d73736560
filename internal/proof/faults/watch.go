package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// watch looks, while faults go on, for what must not be even for a moment: two
// running copies of one instance, one device in two hands, and a slot that the
// books offer while a guest holds it.
func (t checked) watch(ctx context.Context) tally {
	var out tally
	seen := map[string]bool{}
	say := func(counter *int, key, format string, args ...any) {
		if !seen[key] {
			seen[key] = true
			out.find(counter, format, args...)
		}
	}
	for wait(ctx, 250*time.Millisecond) {
		guests, err := t.simulated()
		if err != nil {
			continue // a file that is being replaced
		}
		for _, pair := range copies(guests) {
			say(&out.copies, "copy "+pair, "two running copies at once: %s", pair)
		}
		for _, pair := range shared(guests) {
			say(&out.doubled, "shared "+pair, "a device in two hands: %s", pair)
		}
		for _, h := range t.unclaimed(ctx, guests) {
			say(&out.free, "free "+h, "a slot is offered while a guest holds it: %s", h)
		}
	}
	return out
}

// copies are instances that run twice.
func copies(guests []guest) []string {
	by := map[string]string{}
	var out []string
	for _, g := range guests {
		if !g.running {
			continue
		}
		if other, ok := by[g.instance]; ok {
			out = append(out, g.instance+" on "+other+" and "+g.engine)
		}
		by[g.instance] = g.engine
	}
	return out
}

// shared are devices that two running guests hold.
func shared(guests []guest) []string {
	by := map[string]string{}
	var out []string
	for _, g := range guests {
		if !g.running {
			continue
		}
		for _, d := range g.devices {
			if other, ok := by[d]; ok && other != g.instance {
				out = append(out, fmt.Sprintf("%s of %s and %s", d, other, g.instance))
			}
			by[d] = g.instance
		}
	}
	return out
}

// unclaimed are slots of running guests without a claim. The books are read
// after the node, and the node once more after the books: what was released
// properly meanwhile is gone by then.
func (t checked) unclaimed(ctx context.Context, guests []guest) []string {
	rows, err := t.SQL(ctx, `SELECT g.uuid || '#' || s FROM gpu_claim c JOIN gpu g ON g.id = c.gpu_id, generate_series(lower(c.slots), upper(c.slots) - 1) s`)
	if err != nil {
		return nil // Postgres is down: nothing is offered
	}
	claimed := map[string]bool{}
	for _, r := range rows {
		claimed[r] = true
	}
	var suspects []string
	for _, g := range guests {
		for _, d := range g.devices {
			if g.running && strings.Contains(d, "#") && !claimed[d] {
				suspects = append(suspects, g.instance+" "+d)
			}
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	again, err := t.simulated()
	if err != nil {
		return nil
	}
	var out []string
	for _, g := range again {
		for _, d := range g.devices {
			for _, s := range suspects {
				if g.running && s == g.instance+" "+d {
					out = append(out, s)
				}
			}
		}
	}
	return out
}
