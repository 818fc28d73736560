package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	// What a notebook's image serves, and where its user lives.
	notebookPort = 8888
	notebookHome = "/home/tenon"
)

// NodeAssignment is the whole of what a node must make so, as of one moment.
func (a *App) NodeAssignment(ctx context.Context, id cloud.NodeID) (nodewire.Assignment, error) {
	var got postgres.Assignment
	err := a.db.InNodeSnapshot(ctx, id, func(tx *postgres.Tx) (err error) {
		got, err = postgres.AssignmentGet(ctx, tx, id)
		return notFound(err, "node", id.String())
	})
	if err != nil {
		return nodewire.Assignment{}, err
	}
	out := nodewire.Assignment{
		Version: nodewire.Version{Era: got.Cloud.Era, Generation: got.Generation},
		NodeID:  id.String(), CloudID: got.Cloud.CloudID, Instances: make([]nodewire.Instance, len(got.Instances)),
		Remove: got.Remove, Cards: cardsWanted(got.Cards),
	}
	devices := map[cloud.InstanceID][]nodewire.Device{}
	for _, d := range got.Devices {
		devices[d.InstanceID] = append(devices[d.InstanceID], nodewire.Device{GPUUUID: d.GPUUUID, Mode: d.Mode, Profile: d.Profile, SlotStart: d.SlotStart, SlotEnd: d.SlotEnd})
	}
	mounts, bound := map[cloud.InstanceID][]nodewire.Mount{}, map[cloud.InstanceID]bool{}
	for _, v := range got.Volumes {
		wire := nodewire.Volume{ID: v.ID.String(), OrgID: v.OrgID.String(), Role: string(v.Role), SizeMiB: v.SizeMiB, Desired: nodewire.VolumePresent, Made: v.Made}
		m := nodewire.Mount{VolumeID: wire.ID, Role: wire.Role}
		if v.Role == cloud.VolumeHome {
			m.Path = notebookHome
		}
		if v.Gone {
			wire.Desired = nodewire.VolumeGone
		}
		out.Volumes = append(out.Volumes, wire)
		mounts[v.InstanceID] = append(mounts[v.InstanceID], m)
		bound[v.InstanceID] = bound[v.InstanceID] || v.Made
	}
	for i, x := range got.Instances {
		out.Instances[i] = nodewire.Instance{
			ID: x.ID.String(), Epoch: x.Epoch, Generation: x.Generation, OrgID: x.OrgID.String(), Kind: string(x.Kind), Name: x.Name,
			Desired: desired(x), Image: nodewire.Image{Ref: x.ImageRef, Digest: x.Digest, Embedded: x.Embedded, Private: x.Private}, Expected: x.Expected,
			Command: x.Command, Env: x.Env, VCPU: x.VCPU, MemoryMiB: x.MemoryMiB, DiskMiB: x.DiskMiB,
			PidsMax: pidsMax, StopGraceSeconds: stopGraceSeconds(x.Kind), Devices: devices[x.ID],
			Mounts: mounts[x.ID], SSHKeys: x.SSHKeys, HasUserData: x.UserData,
		}
		// What its data binds to this node is not given elsewhere, so nothing is won
		// by its end.
		if x.OnNodeLoss == cloud.LossRestarts && !bound[x.ID] {
			out.Instances[i].StopAfterSeconds = int(cloud.FenceAfter / time.Second)
		}
		asMember(&out.Instances[i], x, got.Instances)
		if x.Kind == cloud.KindNotebook {
			out.Instances[i].AppPort = notebookPort
		}
	}
	return out, nil
}

// stopGraceSeconds is what a guest gets to end by itself. A whole system has
// services of its own to stop, each of which may take its time.
func stopGraceSeconds(kind cloud.InstanceKind) int {
	if kind == cloud.KindVM {
		return 120
	}
	return 15
}

// desired is what a node must make of a placement: what its state on the way
// says, which intents and deadlines have already moved.
func desired(x postgres.Assigned) string {
	switch {
	case x.State == cloud.StateDeleting || x.Desired == cloud.DesiredDeleted:
		return nodewire.DesiredGone
	case x.State == cloud.StateStopping || x.State == cloud.StateStopped || x.Desired == cloud.DesiredStopped: // stopped on a node: held there
		return nodewire.DesiredStopped
	}
	return nodewire.DesiredRunning
}
