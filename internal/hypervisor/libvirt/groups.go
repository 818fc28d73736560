package libvirt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tenon-cloud/tenon/internal/device"
)

// groupFiles are the files by which QEMU opens the devices of a machine: one for
// each IOMMU group.
func (d *Driver) groupFiles(grants []device.Grant) (out []string, err error) {
	for _, g := range givenOf(grants) {
		folders := []string{}
		for _, f := range g.functions {
			folders = append(folders, "bus/pci/devices/"+f.Address)
		}
		if g.mediated != "" {
			folders = append(folders, "bus/mdev/devices/"+g.mediated)
		}
		for _, folder := range folders {
			link, err := os.Readlink(filepath.Join(d.sys(), folder, "iommu_group"))
			if err != nil {
				return nil, fmt.Errorf("find the IOMMU group of %s: %w", filepath.Base(folder), err)
			}
			if file := filepath.Join(d.dev(), "vfio", filepath.Base(link)); !slices.Contains(out, file) {
				out = append(out, file)
			}
		}
	}
	return out, nil
}

func (d *Driver) dev() string {
	if d.cfg.DevDir != "" {
		return d.cfg.DevDir
	}
	return "/dev"
}

// giveGroups lets QEMU's user open the groups of a machine. The record names them
// first, so that they are taken back whatever happens.
func (d *Driver) giveGroups(id string, grants []device.Grant) error {
	files, err := d.groupFiles(grants)
	if err != nil || len(files) == 0 {
		return err
	}
	r, known := d.readRecord(id)
	if !known {
		return startFailure("its preparation vanished", nil, false)
	}
	if !slices.Equal(r.Groups, files) {
		r.Groups = files
		if err := d.writeRecord(id, r); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := os.Chown(file, d.owner.uid, d.owner.gid); err != nil {
			return fmt.Errorf("give %s to QEMU: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// takeGroups gives them back to root, once no process of the machine is left and
// before its devices are another's. Most are gone with their devices.
func (d *Driver) takeGroups(id string) error {
	r, _ := d.readRecord(id)
	for _, file := range r.Groups {
		if err := os.Chown(file, 0, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take %s from QEMU: %w", filepath.Base(file), err)
		}
	}
	if len(r.Groups) == 0 {
		return nil
	}
	r.Groups = nil
	return d.writeRecord(id, r)
}
