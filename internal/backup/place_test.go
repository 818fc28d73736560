package backup

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

// volume is the one volume of an instance.
func (w *world) volume(id cloud.InstanceID) (out cloud.Volume) {
	w.t.Helper()
	if list := w.get(id).Volumes; len(list) == 1 {
		return list[0]
	}
	w.t.Fatalf("instance %s has %d volumes", id, len(w.get(id).Volumes))
	return out
}

func (n *node) keeps(id string) bool {
	has, err := n.data.Has(context.Background(), id)
	return err == nil && has
}

func (w *world) number(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.Owner.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// alarmed reports an open alarm whose key holds all the words.
func (w *world) alarmed(words ...string) bool {
	w.t.Helper()
	alarms, err := w.app.AlarmList(context.Background(), w.call, true, app.Page{})
	must(w.t, err)
	return slices.ContainsFunc(alarms.Items, func(a cloud.Alarm) bool {
		return !slices.ContainsFunc(words, func(s string) bool { return !strings.Contains(a.Key, s) })
	})
}

// claims lists which instances hold the cards, and fails where two hold one slot.
func (w *world) claims() (out []string) {
	w.t.Helper()
	if n := w.number(`SELECT count(*) FROM gpu_claim a JOIN gpu_claim b ON a.gpu_id = b.gpu_id AND a.id < b.id AND a.slots && b.slots`); n > 0 {
		w.t.Errorf("%d slots are claimed twice", n)
	}
	cards, err := w.app.GPUList(context.Background(), w.call, app.GPUFilter{}, app.Page{})
	must(w.t, err)
	for _, g := range cards.Items {
		for _, c := range g.Claims {
			out = append(out, c.InstanceName)
		}
	}
	return out
}

// TestRestoreOfHeldPlacesAndData: a VM that held its place holds it again,
// whatever was placed there since; data is neither destroyed nor made up.
func TestRestoreOfHeldPlacesAndData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	for name, kind := range map[string]cloud.InstanceKind{"vm": cloud.KindVM, "book": cloud.KindNotebook} {
		must(t, ignore(w.app.ImageCreate(ctx, w.call, app.ImageInput{Name: name, Kind: kind, Ref: "docker.io/library/" + name + ":1"})))
	}
	n := w.join("node-1")
	started := func(id cloud.InstanceID) string {
		g, ok := n.guest(id)
		if !ok {
			return "it does not run"
		}
		return g.StartedAt.String()
	}
	stop := func(name string, id cloud.InstanceID, policy cloud.StopPolicy) {
		t.Helper()
		must(t, ignore(w.app.InstanceStop(ctx, w.call, "default", id.String(), app.StopInput{GPU: policy}, 0)))
		w.until(name, id, cloud.StateStopped)
	}
	gpuUsed := func() int { return w.number(`SELECT used FROM project_quota WHERE resource = 'gpu_milli'`) }

	held := w.runAs(app.InstanceInput{Name: "held", Image: "vm", Flavor: "h100-1x"})
	stop("held", held, cloud.StopHolds)
	kept, erased := w.runAs(app.InstanceInput{Name: "kept", Image: "vm", Flavor: "vm-small"}), w.runAs(app.InstanceInput{Name: "erased", Image: "vm", Flavor: "vm-small"})
	stop("kept", kept, cloud.StopReleases)
	stop("erased", erased, cloud.StopReleases)
	book := w.runAs(app.InstanceInput{Name: "book", Image: "book", Flavor: "cpu-small"})
	home, ran := w.volume(book), started(book)
	pgtest.Eventually(t, "all data is there", func() bool {
		return w.number(`SELECT count(*) FROM volume WHERE state = 'present' AND charged_mib > 0`) == 4
	})
	if !w.get(held).Held || gpuUsed() != 1000 {
		t.Fatalf("before the backup: held %v, %d of a GPU used", w.get(held).Held, gpuUsed())
	}

	file := filepath.Join(t.TempDir(), "tenon.tar")
	head, err := WriteFile(ctx, Source{DSN: w.dsn, MasterKeyFile: w.key, Registry: registryOf(t), Version: "test"}, file)
	must(t, err)

	// The place is given up and another takes it; a disk goes, another comes.
	must(t, ignore(w.app.InstanceStop(ctx, w.call, "default", held.String(), app.StopInput{GPU: cloud.StopReleases}, 0)))
	thief := w.runAs(app.InstanceInput{Name: "thief", Image: "vm", Flavor: "h100-1x"})
	thiefRan, thiefDisk := started(thief), w.volume(thief).ID.String()
	erasedDisk, keptDisk, heldDisk := w.volume(erased).ID.String(), w.volume(kept).ID.String(), w.volume(held).ID.String()
	must(t, ignore(w.app.InstanceDelete(ctx, w.call, "default", erased.String(), 0)))
	pgtest.Eventually(t, "the deleted disk is gone from the node, and settled", func() bool {
		return !n.keeps(erasedDisk) && w.number(`SELECT count(*) FROM volume WHERE state = 'deleted'`) == 1
	})

	w.down()
	archive, _, _, err := Open(file)
	must(t, err)
	defer archive.Close()
	done, err := Restore(ctx, archive, head, Target{DSN: w.dsn, MasterKeyFile: w.key, Registry: t.TempDir(), Replace: true})
	must(t, err)
	w.up(nil)
	pgtest.Eventually(t, "the node holds the new era", func() bool {
		return w.number(`SELECT count(*) FROM node WHERE ack_era::text = $1`, done.Era) == 1
	})

	// Held is held: one claim, its quota, its charge; and nothing of it runs.
	holds := func() {
		t.Helper()
		if i := w.get(held); i.State != cloud.StateStopped || !i.Held || i.Epoch < 1_000_000 || started(held) != "it does not run" || gpuUsed() != 1000 {
			t.Errorf("the held one: %s, held %v, epoch %d, its guest: %s, %d of a GPU used", i.State, i.Held, i.Epoch, started(held), gpuUsed())
		}
		if got := w.claims(); !slices.Equal(got, []string{"held"}) {
			t.Errorf("the cards are held by %v", got)
		}
		if got := started(thief); got != thiefRan {
			t.Errorf("what took the place was ended or begun anew: %s, before %s", got, thiefRan)
		}
	}
	pgtest.Eventually(t, "the held place is charged again", func() bool {
		return w.number(`SELECT count(*) FROM segment WHERE instance_id = $1 AND ended_at IS NULL AND state = 'stopped'`, held.UUID()) == 1
	})
	holds()

	// What the backup does not know is an orphan, and stays.
	pgtest.Eventually(t, "the guest and the disk that nobody knows have alarms", func() bool {
		return w.alarmed("orphan:", thief.String()) && w.alarmed("orphan:", thiefDisk)
	})
	// What it knows, and the node has not got, is lost, and not made anew.
	erasedID := w.volume(erased).ID
	pgtest.Eventually(t, "the missing disk has an alarm", func() bool { return w.alarmed("volume:", erasedID.String(), ":lost") })
	if v := w.volume(erased); v.State != "lost" || w.number(`SELECT count(*) FROM volume_segment WHERE volume_id = $1 AND ended_at IS NULL`, erasedID.UUID()) != 0 {
		t.Errorf("the missing disk is %s, or charged", v.State)
	}
	for _, id := range []cloud.InstanceID{held, kept, book} {
		v := w.volume(id)
		if v.State != "present" || !n.keeps(v.ID.String()) || w.number(`SELECT count(*) FROM volume_segment WHERE volume_id = $1 AND ended_at IS NULL`, v.ID.UUID()) != 1 {
			t.Errorf("the %s volume of %s is %s, there: %v, or not charged", v.Role, w.get(id).Name, v.State, n.keeps(v.ID.String()))
		}
	}
	if w.volume(book).ID != home.ID || started(book) != ran || w.volume(kept).ID.String() != keptDisk || w.volume(held).ID.String() != heldDisk {
		t.Error("a volume is another, or the notebook was begun anew")
	}
	must(t, ignore(w.app.InstanceStart(ctx, w.call, "default", erased.String(), app.StartInput{}, 0)))
	w.until("the one without its disk", erased, cloud.StateFailed)
	if i := w.get(erased); i.Reason != nodewire.ReasonVolume || n.keeps(erasedDisk) {
		t.Errorf("it failed for %q: %s; a new disk: %v", i.Reason, i.Message, n.keeps(erasedDisk))
	}
	must(t, ignore(w.app.InstanceStart(ctx, w.call, "default", kept.String(), app.StartInput{}, 0)))
	w.until("the kept one", kept, cloud.StateRunning)

	// The held one can't start into its taken place, and takes nobody's.
	must(t, ignore(w.app.InstanceStart(ctx, w.call, "default", held.String(), app.StartInput{}, 0)))
	w.until("the held one, into a taken place", held, cloud.StateFailed)
	if got := started(thief); got != thiefRan {
		t.Errorf("what took the place was ended or begun anew: %s, before %s", got, thiefRan)
	}

	// The alarms end with what they tell of.
	must(t, ignore(w.app.InstanceDelete(ctx, w.call, "default", erased.String(), 0)))
	pgtest.Eventually(t, "nobody wants the missing disk any more", func() bool { return !w.alarmed("volume:", erasedID.String()) })
	must(t, w.app.OrphanRemove(ctx, w.call, "node-1", thief.String()))
	pgtest.Eventually(t, "the guest is gone, its disk is not", func() bool {
		return started(thief) == "it does not run" && !w.alarmed("orphan:", thief.String()) && w.alarmed("orphan:", thiefDisk) && n.keeps(thiefDisk)
	})
	pgtest.Eventually(t, "its card can be placed on", func() bool { return w.number(`SELECT count(*) FROM gpu WHERE state <> 'ready'`) == 0 })
	must(t, ignore(w.app.InstanceStart(ctx, w.call, "default", held.String(), app.StartInput{}, 0)))
	w.until("the held one, started at last", held, cloud.StateRunning)
	if got := w.claims(); !slices.Equal(got, []string{"held"}) {
		t.Errorf("the cards are held by %v", got)
	}
	must(t, w.app.OrphanRemove(ctx, w.call, "node-1", thiefDisk))
	pgtest.Eventually(t, "the disk goes when it is named", func() bool { return !n.keeps(thiefDisk) && !w.alarmed("orphan:", thiefDisk) })
	if faults := n.guests.Faults(); len(faults) > 0 {
		t.Errorf("faults: %v", faults)
	}
}
