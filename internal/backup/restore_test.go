package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

// TestRestoreOfYesterdaysBackup: a cloud is backed up while it serves, goes on, and
// is put back. Its nodes follow without a hand; nothing that runs is ended; what
// has gone has failed with a reason; the books say nothing twice.
func TestRestoreOfYesterdaysBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	if _, err := w.app.ImageCreate(ctx, w.call, app.ImageInput{Name: "test", Ref: "docker.io/library/test:1"}); err != nil {
		t.Fatal(err)
	}
	one, two := w.join("node-1"), w.join("node-2")
	guestOf := func(id cloud.InstanceID) (epoch, generation int64, started time.Time, on *node) {
		for _, n := range []*node{one, two} {
			if g, ok := n.guest(id); ok {
				return g.Epoch, g.Generation, g.StartedAt, n
			}
		}
		return 0, 0, time.Time{}, nil
	}
	untouched, deleted, stopped, moved, again := w.run("untouched"), w.run("deleted"), w.run("stopped"), w.run("moved"), w.run("again")
	asleep := w.run("asleep")
	must(t, ignore(w.app.InstanceStop(ctx, w.call, "default", asleep.String(), app.StopInput{}, 0)))
	w.until("asleep", asleep, cloud.StateStopped)

	registry := registryOf(t)
	file := filepath.Join(t.TempDir(), "tenon.tar")
	before := time.Now()
	head, err := WriteFile(ctx, Source{DSN: w.dsn, MasterKeyFile: w.key, Registry: registry, Version: "test"}, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("backed up in %s", time.Since(before).Round(time.Millisecond))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %v, %v", info, err)
	}

	// Life goes on.
	must(t, ignore(w.app.InstanceDelete(ctx, w.call, "default", deleted.String(), 0)))
	must(t, ignore(w.app.InstanceStop(ctx, w.call, "default", stopped.String(), app.StopInput{}, 0)))
	must(t, ignore(w.app.InstanceStop(ctx, w.call, "default", moved.String(), app.StopInput{}, 0)))
	must(t, ignore(w.app.InstanceRestart(ctx, w.call, "default", again.String(), 0)))
	w.until("stopped", stopped, cloud.StateStopped)
	w.until("moved", moved, cloud.StateStopped)
	for _, id := range []cloud.InstanceID{moved, asleep} {
		must(t, ignore(w.app.InstanceStart(ctx, w.call, "default", id.String(), app.StartInput{}, 0)))
		w.until("started again", id, cloud.StateRunning)
	}
	later := w.run("later")
	pgtest.Eventually(t, "the deleted one is gone and the restarted one has begun anew", func() bool {
		_, _, _, on := guestOf(deleted)
		_, generation, _, _ := guestOf(again)
		return on == nil && generation == w.get(again).Generation
	})
	type run struct {
		epoch   int64
		started time.Time
	}
	ran := map[cloud.InstanceID]run{}
	for _, id := range []cloud.InstanceID{untouched, moved, again, asleep, later} {
		epoch, _, started, _ := guestOf(id)
		ran[id] = run{epoch, started}
	}

	// Not while it serves, not over something without a word.
	target := Target{DSN: w.dsn, MasterKeyFile: w.key, Registry: t.TempDir(), Replace: true}
	archive, opened, _, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if opened.CloudID != head.CloudID || opened.WithKey {
		t.Errorf("the archive's header: %+v", opened)
	}
	if _, err := Restore(ctx, archive, head, target); err == nil || !strings.Contains(err.Error(), "control plane is") {
		t.Errorf("a restore under a control plane: %v", err)
	}
	w.stop()
	for what, bad := range map[string]Target{
		"without --replace": {DSN: w.dsn, MasterKeyFile: w.key, Registry: target.Registry},
		"another cloud":     {DSN: w.dsn, MasterKeyFile: w.key, Registry: target.Registry, Replace: true, CloudID: "00000000"},
		"without the key":   {DSN: w.dsn, MasterKeyFile: filepath.Join(t.TempDir(), "master.key"), Registry: target.Registry, Replace: true},
	} {
		if _, err := Restore(ctx, archive, head, bad); err == nil {
			t.Errorf("restored %s", what)
		}
	}
	newer := head
	newer.Schema = 9999
	if _, err := Restore(ctx, archive, newer, target); err == nil || !strings.Contains(err.Error(), "schema 9999") {
		t.Errorf("a newer schema: %v", err)
	}
	began := time.Now()
	done, err := Restore(ctx, archive, head, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("restored in %s: %+v", time.Since(began).Round(time.Millisecond), done)
	if done.Instances != 5 {
		t.Errorf("%d instances are in doubt, 5 ran at the backup", done.Instances)
	}
	if got, err := os.ReadFile(filepath.Join(target.Registry, blobPath)); err != nil || string(got) != "a blob" {
		t.Errorf("the registry's blob: %q, %v", got, err)
	}

	// A node renews its certificate every few hours: the backup knows none of today's.
	if _, err := w.db.Owner.Exec(ctx, `DELETE FROM node_certificate WHERE node_id = $1`, one.id.UUID()); err != nil {
		t.Fatal(err)
	}

	w.up(nil)
	for name, n := range w.nodes {
		pgtest.Eventually(t, name+" holds the new era", func() bool {
			var era string
			err := w.db.Owner.QueryRow(ctx, `SELECT COALESCE(ack_era::text, '') FROM node WHERE id = $1`, n.id.UUID()).Scan(&era)
			return err == nil && era == done.Era
		})
	}
	w.until("untouched", untouched, cloud.StateRunning)
	pgtest.Eventually(t, "the node says that it ran all the while", func() bool {
		return w.get(untouched).Reason == "" && w.get(again).Reason == ""
	})
	for what, id := range map[string]cloud.InstanceID{"the deleted": deleted, "the stopped": stopped, "the moved": moved} {
		w.until(what, id, cloud.StateFailed)
		if i := w.get(id); i.Reason == "" || i.Message == "" {
			t.Errorf("%s failed without a reason: %+v", what, i)
		}
	}
	if i := w.get(moved); i.Reason != nodewire.ReasonStray {
		t.Errorf("the moved one failed for %q: %s", i.Reason, i.Message)
	}
	if i := w.get(asleep); i.State != cloud.StateStopped {
		t.Errorf("the sleeping one is %s", i.State)
	}
	// What ran runs, the same run; what nobody knows is listed.
	orphans := func() (ids []string) {
		for _, n := range w.nodes {
			var text []byte
			if err := w.db.Owner.QueryRow(ctx, `SELECT orphans FROM node WHERE id = $1`, n.id.UUID()).Scan(&text); err != nil {
				t.Fatal(err)
			}
			var list []nodewire.Orphan
			must(t, json.Unmarshal(text, &list))
			for _, o := range list {
				ids = append(ids, o.ID)
			}
		}
		return ids
	}
	pgtest.Eventually(t, "what nobody knows is listed", func() bool {
		got := orphans()
		return slices.Contains(got, moved.String()) && slices.Contains(got, asleep.String()) && slices.Contains(got, later.String())
	})
	for id, was := range ran {
		if epoch, _, started, on := guestOf(id); on == nil || epoch != was.epoch || !started.Equal(was.started) {
			t.Errorf("%s was ended or begun anew: epoch %d of %s, was %d of %s", id, epoch, started, was.epoch, was.started)
		}
	}
	alarms, err := w.app.AlarmList(ctx, w.call, true, app.Page{})
	must(t, err)
	tells := func(a cloud.Alarm) bool { return strings.Contains(a.Message, "restored from a backup of") }
	if n := slices.IndexFunc(alarms.Items, tells); n < 0 {
		t.Errorf("no alarm tells of the restore: %+v", alarms.Items)
	} else {
		must(t, ignore(w.app.AlarmAcknowledge(ctx, w.call, alarms.Items[n].ID.String())))
		pgtest.Eventually(t, "it is over once it is acknowledged", func() bool {
			now, err := w.app.AlarmList(ctx, w.call, true, app.Page{})
			must(t, err)
			return !slices.ContainsFunc(now.Items, tells)
		})
	}

	// A node that joined after the backup is told so; an old certificate that the
	// database does not know is not let in by a restore.
	var said *cloud.Error
	err = w.app.NodeCertificateAdopt(ctx, cloud.NodeID{}.New(), "beef", head.TakenAt, time.Now().Add(time.Hour))
	if !errors.As(err, &said) || said.Code != "node_unknown" {
		t.Errorf("a node that the backup does not know: %v", err)
	}
	err = w.app.NodeCertificateAdopt(ctx, two.id, "beef", head.TakenAt.Add(-time.Hour), time.Now().Add(time.Hour))
	if !errors.As(err, &said) || said.Code != "certificate_revoked" {
		t.Errorf("a certificate of before the backup: %v", err)
	}

	w.books(head.TakenAt, done.At, untouched, again, deleted, stopped, moved)

	// What is started from now on never meets a run of before.
	must(t, ignore(w.app.InstanceDelete(ctx, w.call, "default", deleted.String(), 0)))
	w.run("fresh")
	must(t, ignore(w.app.InstanceStart(ctx, w.call, "default", stopped.String(), app.StartInput{}, 0)))
	w.until("the stopped one, started again", stopped, cloud.StateRunning)
	if i := w.get(stopped); i.Epoch < 1_000_000 {
		t.Errorf("it runs at epoch %d, which a run of before may have had", i.Epoch)
	}
}

// books checks what is charged: of what ran all the while, all of it; of the rest,
// until the backup; and no stretch twice.
func (w *world) books(taken, restored time.Time, all, again cloud.InstanceID, gone ...cloud.InstanceID) {
	w.t.Helper()
	ctx := context.Background()
	// Seconds that are charged of an instance after the backup and before the
	// restore, corrections included.
	gap := func(id cloud.InstanceID) (seconds float64) {
		err := w.db.Owner.QueryRow(ctx, `
			SELECT COALESCE(sum(GREATEST(0, extract(epoch FROM LEAST(COALESCE(ended, $3), $3) - GREATEST(started_at, $2)))), 0) FROM (
				SELECT s.started_at, s.ended_at + COALESCE((SELECT sum(c.seconds) FROM usage_correction c WHERE c.segment_id = s.id), 0) * interval '1 second' AS ended
				FROM segment s WHERE s.instance_id = $1) x`, id.UUID(), taken, restored).Scan(&seconds)
		if err != nil {
			w.t.Fatal(err)
		}
		return seconds
	}
	want := restored.Sub(taken).Seconds()
	for _, id := range []cloud.InstanceID{all, again} {
		pgtest.Eventually(w.t, "all of the gap is charged of what ran all the while", func() bool { return gap(id) > want-0.01 && gap(id) < want+0.01 })
	}
	for _, id := range gone {
		if s := gap(id); s != 0 {
			w.t.Errorf("%.3f s of the gap of %.3f s are charged of what did not run through it", s, want)
		}
	}
	var twice int
	err := w.db.Owner.QueryRow(ctx, `
		WITH x AS (SELECT s.id, s.instance_id, s.started_at, COALESCE(s.ended_at + COALESCE((SELECT sum(c.seconds) FROM usage_correction c WHERE c.segment_id = s.id), 0) * interval '1 second', 'infinity') AS ended FROM segment s)
		SELECT count(*) FROM x a JOIN x b ON a.instance_id = b.instance_id AND a.id < b.id AND a.started_at < b.ended AND b.started_at < a.ended`).Scan(&twice)
	if err != nil || twice > 0 {
		w.t.Errorf("%d stretches are charged twice, %v", twice, err)
	}
}

const blobPath = "docker/registry/v2/blobs/sha256/aa/aaaa/data"

// registryOf is a small folder of the embedded registry.
func registryOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		blobPath: "a blob",
		"docker/registry/v2/repositories/acme/web/_manifests/tags/1/current/link": "sha256:aaaa",
		"docker/registry/v2/repositories/acme/web/_uploads/half/data":             "half of something",
	} {
		full := filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(full), 0o700))
		must(t, os.WriteFile(full, []byte(text), 0o600))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ignore[T any](_ T, err error) error { return err }

// TestADamagedArchiveIsRefused: whatever is changed, cut off, added or left out.
func TestADamagedArchiveIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	var whole bytes.Buffer
	if _, err := Write(t.Context(), Source{DSN: w.dsn, MasterKeyFile: w.key, Registry: registryOf(t), WithKey: true, Version: "test"}, &whole); err != nil {
		t.Fatal(err)
	}
	_, parts, err := Verify(bytes.NewReader(whole.Bytes()))
	must(t, err)
	names := []string{}
	for _, p := range parts {
		names = append(names, p.Name)
	}
	if !slices.Contains(names, keyName) || !slices.Contains(names, databaseName) || !slices.Contains(names, registryName+"/"+blobPath) || strings.Contains(strings.Join(names, " "), "_uploads") {
		t.Errorf("an archive of %v", names)
	}
	for at := 600; at < whole.Len()-2048; at += whole.Len() / 40 {
		broken := bytes.Clone(whole.Bytes())
		broken[at] ^= 0x40
		if !bytes.Equal(broken[at/512*512:at/512*512+512], make([]byte, 512)) {
			if _, _, err := Verify(bytes.NewReader(broken)); err == nil && !padding(whole.Bytes(), at) {
				t.Errorf("a changed byte at %d of %d was not noticed", at, whole.Len())
			}
		}
	}
	for _, n := range []int{0, 100, 5000, whole.Len() / 2, whole.Len() - 4000} {
		if _, _, err := Verify(bytes.NewReader(whole.Bytes()[:n])); err == nil {
			t.Errorf("an archive that ends after %d of %d bytes was taken", n, whole.Len())
		}
	}
}

// padding reports a zero byte between two parts, which means nothing.
func padding(b []byte, at int) bool { return b[at] == 0 }
