package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestAnAssignmentNamesVolumesAndWhatMayRunElsewhere, and a node keeps a volume
// whose instance is not placed.
func TestAnAssignmentNamesVolumesAndWhatMayRunElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	node := h.node(t, 1, cloud.ModeMIG)
	place := func(name, kind string) cloud.InstanceID {
		in := web(name)
		in.OnNodeLoss = cloud.LossRestarts
		made, err := h.InstanceCreate(ctx, h.admin, "default", in)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, h, `UPDATE instance SET state = 'starting', node_id = $2, epoch = 1, kind = $3 WHERE id = $1`, made.ID, node, kind)
		return made.ID
	}
	volume := func(i cloud.InstanceID, role string) string {
		id := cloud.VolumeID{}.New()
		exec(t, h, `INSERT INTO volume (id, org_id, project_id, instance_id, role, size_mib, node_id)
			SELECT $2, org_id, project_id, id, $3, 1024, $4 FROM instance WHERE id = $1`, i, id, role, node)
		return id.String()
	}
	c, nb, vm := place("c", "container"), place("nb", "notebook"), place("vm", "vm")
	home, root := volume(nb, "home"), volume(vm, "root")
	exec(t, h, `UPDATE instance SET ssh_keys = '{ssh-ed25519 AAAA}', user_data = '\x00' WHERE id = $1`, vm)
	exec(t, h, `INSERT INTO node_removal (node_id, what) VALUES ($1, 'inst_stray')`, node)

	got := must(h.NodeAssignment(ctx, node))
	by := map[string]nodewire.Instance{}
	for _, i := range got.Instances {
		by[i.ID] = i
	}
	type said struct {
		Mounts           []nodewire.Mount
		Keys             []string
		UserData         bool
		StopAfter, AppAt int
		Grace            int
	}
	for id, want := range map[cloud.InstanceID]said{
		c:  {Grace: 15, StopAfter: 90, Keys: []string{}},
		nb: {Grace: 15, StopAfter: 90, AppAt: 8888, Keys: []string{}, Mounts: []nodewire.Mount{{VolumeID: home, Role: "home", Path: "/home/tenon"}}},
		vm: {Grace: 120, StopAfter: 90, Keys: []string{"ssh-ed25519 AAAA"}, UserData: true, Mounts: []nodewire.Mount{{VolumeID: root, Role: "root"}}},
	} {
		i := by[id.String()]
		if diff := cmp.Diff(want, said{i.Mounts, i.SSHKeys, i.HasUserData, i.StopAfterSeconds, i.AppPort, i.StopGraceSeconds}); diff != "" {
			t.Errorf("%s: %s", i.Name, diff)
		}
	}
	if diff := cmp.Diff([]string{"inst_stray"}, got.Remove); diff != "" || len(got.Volumes) != 2 {
		t.Errorf("%s; %+v", diff, got.Volumes)
	}

	// The notebook is stopped: its home stays listed. The VM's disk is asked to go.
	exec(t, h, `UPDATE instance SET state = 'stopped', desired_state = 'stopped', node_id = NULL WHERE id = $1`, nb)
	exec(t, h, `UPDATE volume SET state = 'present' WHERE role = 'home'`)
	exec(t, h, `UPDATE volume SET state = 'deleting', ending_at = now() WHERE role = 'root'`)
	got = must(h.NodeAssignment(ctx, node))
	states := map[string]string{}
	for _, v := range got.Volumes {
		states[v.ID] = v.Desired
	}
	if diff := cmp.Diff(map[string]string{home: nodewire.VolumePresent, root: nodewire.VolumeGone}, states); diff != "" || len(got.Instances) != 2 {
		t.Errorf("%s; %d instances", diff, len(got.Instances))
	}

	// What its data binds to the node can't run elsewhere, so it is not ended for that.
	exec(t, h, `UPDATE volume SET state = 'present', ending_at = NULL WHERE role = 'root'`)
	for _, i := range must(h.NodeAssignment(ctx, node)).Instances {
		if want := map[bool]int{true: 0, false: 90}[i.Kind == "vm"]; i.StopAfterSeconds != want {
			t.Errorf("%s ends after %d s without contact, want %d", i.Kind, i.StopAfterSeconds, want)
		}
	}
}

// TestWhatANodeSaysOfItselfIsKept: what it is, its volumes, and whether anything
// goes on in a notebook; and only of what is its own.
func TestWhatANodeSaysOfItselfIsKept(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	node, other := h.enroll(t, "n1"), h.enroll(t, "n2")
	made, err := h.InstanceCreate(ctx, h.admin, "default", web("nb"))
	if err != nil {
		t.Fatal(err)
	}
	exec(t, h, `UPDATE instance SET state = 'starting', node_id = $2, epoch = 1 WHERE id = $1`, made.ID, node)
	vol, foreign := cloud.VolumeID{}.New(), cloud.VolumeID{}.New()
	for id, at := range map[cloud.VolumeID]cloud.NodeID{vol: node, foreign: other} {
		exec(t, h, `INSERT INTO volume (id, org_id, project_id, instance_id, role, size_mib, node_id)
			SELECT $2, org_id, project_id, id, $4, 1024, $3 FROM instance WHERE id = $1`, made.ID, id, at, map[bool]string{true: "home", false: "root"}[id == vol])
	}
	r := report(card("1"))
	r.Labels, r.Kinds, r.Watchdog = map[string]string{"rack": "a1"}, []string{"vm", "spaceship", "container"}, true
	percent := 3.5
	r.Instances = []nodewire.InstanceReport{{ID: made.ID.String(), Epoch: 1, Generation: 1, State: nodewire.GuestRunning,
		Activity: &nodewire.Activity{Kernels: 2, BusyKernels: 1, QuietSeconds: 12, GPUPercent: &percent, HasGPU: true}}}
	r.Volumes = []nodewire.VolumeReport{
		{ID: vol.String(), State: nodewire.VolumePresent, UsedMiB: 77}, {ID: foreign.String(), State: nodewire.VolumeGone},
		{ID: "vol_nonsense", State: nodewire.VolumeGone}, {ID: cloud.VolumeID{}.New().String(), State: nodewire.VolumePresent},
	}
	if _, err := h.NodeReport(ctx, node, r); err != nil {
		t.Fatal(err)
	}
	var row, said, theirs, activity string
	scan := func(into *string, sql string, args ...any) {
		t.Helper()
		if err := h.pg.Owner.QueryRow(ctx, sql, args...).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	scan(&row, `SELECT labels::text || kinds::text || watchdog::text FROM node WHERE id = $1`, node)
	scan(&said, `SELECT said || used_mib::text || (said_at IS NOT NULL)::text FROM volume WHERE id = $1`, vol)
	scan(&theirs, `SELECT said FROM volume WHERE id = $1`, foreign)
	scan(&activity, `SELECT activity::text FROM observation WHERE instance_id = $1`, made.ID)
	if row != `{"rack": "a1"}{container,vm}true` || said != "present77true" || theirs != "" || !strings.Contains(activity, `"busy_kernels": 1`) {
		t.Errorf("%s; %s; another's %q; %s", row, said, theirs, activity)
	}
	r.Instances[0].Activity = nil
	if _, err := h.NodeReport(ctx, node, r); err != nil {
		t.Fatal(err)
	}
	if n := count(t, h, `SELECT count(*) FROM observation WHERE activity IS NULL`); n != 1 {
		t.Error("what is no longer known is still kept as known")
	}
}
