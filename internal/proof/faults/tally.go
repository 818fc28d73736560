package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// tally counts what must be zero, and what is worth knowing.
type tally struct {
	faults           map[string]int
	created, intents int
	states           map[string]int
	took             time.Duration

	doubled, lost, orphans, segments, free, copies, unexplained, leftovers int
	findings                                                               []string
}

func (t *tally) add(o tally) {
	if t.faults == nil {
		t.faults = map[string]int{}
	}
	for k, n := range o.faults {
		t.faults[k] += n
	}
	t.created += o.created
	t.intents += o.intents
	t.addWrong(o)
}

func (t *tally) addWrong(o tally) {
	t.doubled += o.doubled
	t.lost += o.lost
	t.orphans += o.orphans
	t.segments += o.segments
	t.free += o.free
	t.copies += o.copies
	t.unexplained += o.unexplained
	t.leftovers += o.leftovers
	t.findings = append(t.findings, o.findings...)
}

func (t *tally) find(counter *int, format string, args ...any) {
	*counter++
	t.findings = append(t.findings, fmt.Sprintf(format, args...))
}

func (t *tally) bad() bool {
	return t.doubled+t.lost+t.orphans+t.segments+t.free+t.copies+t.unexplained+t.leftovers > 0
}

func (t *tally) total() int {
	n := 0
	for _, k := range t.faults {
		n += k
	}
	return n
}

func (t *tally) byKind() string { return counts(t.faults) }

func (t *tally) verdict() string {
	if !t.bad() {
		return "all in order"
	}
	return "WRONG:\n  " + strings.Join(t.findings, "\n  ")
}

func (t *tally) story() string {
	return fmt.Sprintf("%d faults (%s), %d created, %d intents, at rest %s, %.0f s", t.total(), t.byKind(), t.created, t.intents, counts(t.states), t.took.Seconds())
}

func counts(m map[string]int) string {
	var out []string
	for k, n := range m {
		out = append(out, fmt.Sprintf("%d %s", n, k))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
