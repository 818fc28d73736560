package simulate

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// The MIG experiment whole: in no cell does another policy accept more.
func TestMIGEvaluation(t *testing.T) {
	if os.Getenv("TENON_EVALUATION") == "" {
		t.Skip("a minute of one core: set TENON_EVALUATION=1")
	}
	var table bytes.Buffer
	fmt.Fprintln(&table, "accepted, percent of requests (of their memory): 100 GPUs, 55,000 requests, seeds 1 to 3")
	for _, c := range []struct {
		mix  string
		load float64
	}{{"uniform", 0.85}, {"uniform", 1}, {"uniform", 1.2}, {"large-heavy", 1}, {"bimodal", 1}, {"small-heavy", 0.85}, {"small-heavy", 1}} {
		got := map[string]float64{}
		fmt.Fprintf(&table, "%-11s %.2f", c.mix, c.load)
		for _, p := range MIGPolicies {
			x := &MIG{GPUs: 100, Mix: c.mix, Load: c.load, Seeds: []int64{1, 2, 3}, Requests: 55_000, Policy: p}
			r, err := x.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got[p] = r.Accepted
			fmt.Fprintf(&table, "  %s %.2f (%.2f)", p, r.Accepted, r.AcceptedMemory)
		}
		fmt.Fprintln(&table)
		if best := max(got["best-fit"], got["frag-gradient"]); got["tenon"] < best {
			t.Errorf("%s %g: tenon accepts %.3f %%, another %.3f", c.mix, c.load, got["tenon"], best)
		}
	}
	golden(t, "testdata/mig.golden", table.Bytes())
}
