package app_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// TestWhatIsFreeIsSaidByKind: of the cards of a node some are a container's and not
// a VM's, of others it is the other way about, and no kind is promised what it
// would wait for.
func TestWhatIsFreeIsSaidByKind(t *testing.T) {
	t.Parallel()
	type want struct{ container, vm int }
	const all = `{container,notebook,vm}`
	for name, c := range map[string]struct {
		mode   cloud.GPUMode
		cards  int
		change []string
		flavor string
		free   want
		serves want // 1: it could be had were the node empty
	}{
		"whole cards":                      {cloud.ModeWhole, 4, nil, "whole-1", want{4, 4}, want{1, 1}},
		"cards in vGPU mode":               {cloud.ModeWhole, 4, []string{`UPDATE gpu SET mode = 'vgpu', geometry = 'vgpu4'`}, "whole-1", want{0, 0}, want{0, 0}},
		"their vGPUs are a VM's":           {cloud.ModeWhole, 2, []string{`UPDATE gpu SET mode = 'vgpu', geometry = 'vgpu4'`}, "vgpu-4th", want{0, 8}, want{0, 1}},
		"shares are a container's":         {cloud.ModeWhole, 2, []string{`UPDATE gpu SET mode = 'shared', geometry = 'share4'`}, "share-4th", want{8, 0}, want{1, 0}},
		"slices are a container's":         {cloud.ModeMIG, 1, nil, "slice", want{7, 0}, want{1, 0}},
		"no VM can have them":              {cloud.ModeWhole, 4, []string{`UPDATE gpu SET not_for_vm = true`}, "whole-1", want{4, 0}, want{1, 0}},
		"a node without an engine for VMs": {cloud.ModeWhole, 4, []string{`UPDATE node SET kinds = '{container,notebook}'`}, "whole-1", want{4, 0}, want{1, 1}},
		"one partition of two, and it is ours": {cloud.ModeWhole, 4, []string{
			`INSERT INTO gpu_partition (node_id, id, gpus) SELECT id, 1, '{0000:00:00.0,0000:01:00.0}' FROM node`,
			`INSERT INTO gpu_partition (node_id, id, gpus) SELECT id, 2, '{0000:02:00.0,0000:03:00.0}' FROM node`,
		}, "whole-2", want{2, 2}, want{1, 1}},
		"one of its partitions is another's": {cloud.ModeWhole, 4, []string{
			`INSERT INTO gpu_partition (node_id, id, gpus, not_ours) SELECT id, 1, '{0000:00:00.0,0000:01:00.0}', true FROM node`,
			`INSERT INTO gpu_partition (node_id, id, gpus) SELECT id, 2, '{0000:02:00.0,0000:03:00.0}' FROM node`,
		}, "whole-2", want{2, 1}, want{1, 1}},
		"no partition of one": {cloud.ModeWhole, 4, []string{
			`INSERT INTO gpu_partition (node_id, id, gpus) SELECT id, 1, '{0000:00:00.0,0000:01:00.0,0000:02:00.0,0000:03:00.0}' FROM node`,
		}, "whole-1", want{4, 0}, want{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.images(t)
			ctx := t.Context()
			shape := cloud.Shape{GPUCount: 1, GPUModel: "h100-80gb", GPUMode: cloud.ModeWhole, VCPU: 1, MemoryMiB: 2048, DiskMiB: 8192}
			two, quarter, share, slice := shape, shape, shape, shape
			two.GPUCount = 2
			quarter.GPUMode, quarter.GPUProfile = cloud.ModeVGPU, "vgpu4"
			share.GPUMode, share.GPUProfile = cloud.ModeShared, "share4"
			slice.GPUMode, slice.GPUProfile = cloud.ModeMIG, "1g"
			for n, s := range map[string]cloud.Shape{"whole-1": shape, "whole-2": two, "vgpu-4th": quarter, "share-4th": share, "slice": slice} {
				must(h.FlavorCreate(ctx, h.admin, app.FlavorInput{Name: n, Shape: s}))
			}
			h.node(t, c.cards, c.mode)
			exec(t, h, `UPDATE node SET kinds = '`+all+`'`)
			for _, sql := range c.change {
				exec(t, h, sql)
			}
			for _, f := range must(h.FlavorList(ctx, h.admin)) {
				if f.Name != c.flavor {
					continue
				}
				var free, serves want
				for _, k := range f.Kinds {
					n := map[bool]int{true: 1}[k.Served]
					switch k.Kind {
					case cloud.KindContainer:
						free.container, serves.container = k.FreeNow, n
					case cloud.KindVM:
						free.vm, serves.vm = k.FreeNow, n
					}
				}
				if free != c.free || serves != c.serves {
					t.Errorf("free %+v and served %+v, want %+v and %+v", free, serves, c.free, c.serves)
				}
				if f.FreeNow != max(c.free.container, c.free.vm) {
					t.Errorf("%d free, of no kind", f.FreeNow)
				}
			}
			for image, n := range map[string]int{"debian-12": c.free.container, "debian-12-vm": c.free.vm} {
				d, err := h.InstanceDryRun(ctx, h.admin, "default", app.InstanceInput{Name: "try", Image: image, Flavor: c.flavor})
				if err != nil {
					if n > 0 {
						t.Errorf("%s: %v", image, err)
					}
					continue // that kind can't have the flavor at all
				}
				if d.FreeNow != n || d.StartsNow != (n > 0) {
					t.Errorf("%s: a dry run finds %d free, starts now: %v; want %d", image, d.FreeNow, d.StartsNow, n)
				}
			}
		})
	}
}
