package app

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	volumePending = "pending"
	volumePresent = "present"
)

// volumeOf is what an instance of a kind keeps while it is stopped: a VM its
// disk, a notebook its home folder. A container keeps nothing.
func volumeOf(i cloud.Instance) (cloud.Volume, bool) {
	v := cloud.Volume{ID: cloud.VolumeID{}.New(), OrgID: i.OrgID, ProjectID: i.ProjectID, InstanceID: i.ID, SizeMiB: i.Shape.DiskMiB, State: volumePending}
	switch i.Kind {
	case cloud.KindVM:
		v.Role = cloud.VolumeRoot
	case cloud.KindNotebook:
		v.Role = cloud.VolumeHome
	default:
		return cloud.Volume{}, false
	}
	return v, true
}

// withVolumes adds to instances what they keep.
func withVolumes(ctx context.Context, tx *postgres.Tx, rows []postgres.Instance) error {
	var ids []cloud.InstanceID
	for _, i := range rows {
		if i.Kind != cloud.KindContainer {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	have, err := postgres.VolumesOf(ctx, tx, ids)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Volumes = have[rows[i].ID]
	}
	return nil
}
