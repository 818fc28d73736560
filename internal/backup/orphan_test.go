package backup

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

// TestAnOrphanGoesWhenAnOperatorSaysSo: what was started after the backup runs on
// when it is restored, and its card is nobody's. An operator's DELETE, and nothing
// else, ends it at its node; then the card is offered again.
func TestAnOrphanGoesWhenAnOperatorSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	must(t, ignore(w.app.ImageCreate(ctx, w.call, app.ImageInput{Name: "test", Ref: "docker.io/library/test:1"})))
	n := w.join("node-1")
	bystander := w.run("bystander")
	file := filepath.Join(t.TempDir(), "tenon.tar")
	head, err := WriteFile(ctx, Source{DSN: w.dsn, MasterKeyFile: w.key, Registry: registryOf(t), Version: "test"}, file)
	must(t, err)
	orphan := w.runAs(app.InstanceInput{Name: "orphan", Image: "test", Flavor: "h100-1x"}).String()

	w.down()
	archive, _, _, err := Open(file)
	must(t, err)
	defer archive.Close()
	must(t, ignore(Restore(ctx, archive, head, Target{DSN: w.dsn, MasterKeyFile: w.key, Registry: t.TempDir(), Replace: true})))
	w.up(nil)

	runs := func() bool {
		list, err := n.guests.List(ctx)
		must(t, err)
		return slices.ContainsFunc(list, func(g hypervisor.Guest) bool { return g.ID == orphan })
	}
	card := func() api.GPU {
		page, err := w.api.GPUList(ctx, api.GPUListOptions{Node: "node-1"})
		must(t, err)
		at := slices.IndexFunc(page.Items, func(g api.GPU) bool { return g.Mode == "whole" })
		return page.Items[at]
	}
	alarms := func(words string) (out []api.Alarm) {
		page, err := w.api.AlarmList(ctx, api.AlarmListOptions{All: true})
		must(t, err)
		for _, a := range page.Items {
			if strings.Contains(a.Key, words) {
				out = append(out, a)
			}
		}
		return out
	}
	offered := func() int {
		flavors, err := w.app.FlavorList(ctx, w.call)
		must(t, err)
		at := slices.IndexFunc(flavors, func(f app.FlavorOffer) bool { return f.Name == "h100-1x" })
		return flavors[at].FreeNow
	}
	listed := func() bool {
		got, err := w.api.NodeGet(ctx, "node-1")
		must(t, err)
		return slices.ContainsFunc(got.Orphans, func(o api.Orphan) bool { return o.ID == orphan })
	}
	pgtest.Eventually(t, "it is listed, has an alarm, and its card is out of service", func() bool {
		return listed() && len(alarms("orphan:"+orphan)) == 1 && card().State == "quarantined"
	})
	if g := card(); !runs() || !strings.Contains(g.Reason, orphan) || len(g.Claims) != 0 || offered() != 0 {
		t.Errorf("it runs: %v; its card: %s, %d claims; %d are offered", runs(), g.Reason, len(g.Claims), offered())
	}

	var p *api.Problem
	if err := w.api.OrphanRemove(ctx, "node-1", bystander.String()); !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Errorf("the removal of what is assigned: %v", err)
	}
	must(t, w.api.OrphanRemove(ctx, "node-1", orphan))
	pgtest.Eventually(t, "it has ended at its node", func() bool { return !runs() && !listed() })
	pgtest.Eventually(t, "its card is offered again", func() bool { return card().State == "ready" && card().Reason == "" && offered() == 1 })
	pgtest.Eventually(t, "its alarm is over", func() bool { a := alarms("orphan:" + orphan); return len(a) == 1 && a[0].State == "cleared" })
	pgtest.Eventually(t, "nothing is left to remove", func() bool { return w.number(`SELECT count(*) FROM node_removal`) == 0 })
	if err := w.api.OrphanRemove(ctx, "node-1", orphan); !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Errorf("a second removal: %v", err)
	}
	w.until("the bystander", bystander, cloud.StateRunning)
	w.runAs(app.InstanceInput{Name: "next", Image: "test", Flavor: "h100-1x"})
	if faults := n.guests.Faults(); len(faults) > 0 {
		t.Errorf("faults: %v", faults)
	}
}
