package app

import (
	"fmt"
	"testing"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestManyFaultsOfOneTenantHideNoOthers: of more incidents than are kept of a report,
// the worst come first, then each card's in turn.
func TestManyFaultsOfOneTenantHideNoOthers(t *testing.T) {
	t.Parallel()
	var r nodewire.Report
	add := func(id, card, action string, age float64) {
		r.Incidents = append(r.Incidents, nodewire.Incident{ID: id, PCIAddress: card, Kind: "xid", XID: 31, Action: action, AgeSeconds: age})
	}
	for i := range 2 * incidentsKept {
		add(fmt.Sprintf("noise-%d", i), "0000:17:00.0", nodewire.ActionNone, float64(10000-i))
	}
	add("own", "0000:65:00.0", nodewire.ActionNone, 2)
	add("worst", "0000:65:00.0", nodewire.ActionOut, 1)
	said := map[string]int{}
	for i, x := range incidentsSaid(r) {
		said[x.ID] = i + 1
	}
	if len(said) != incidentsKept || said["worst"] != 1 || said["own"] == 0 {
		t.Errorf("%d are kept; the worst is at %d, another tenant's at %d", len(said), said["worst"], said["own"])
	}
	if said[fmt.Sprintf("noise-%d", 2*incidentsKept-1)] == 0 {
		t.Error("the newest of the many is not kept")
	}
}
