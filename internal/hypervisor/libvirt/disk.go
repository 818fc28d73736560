package libvirt

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// rootFolder is where a machine's disk lies: its root volume's folder.
func rootFolder(spec hypervisor.Spec) (string, error) {
	for _, m := range spec.Mounts {
		if m.Role != "root" {
			continue
		}
		if dir := spec.Folders[m.VolumeID]; dir != "" {
			return dir, nil
		}
	}
	return "", &hypervisor.Failure{Reason: nodewire.ReasonVolume, Message: "its root volume is not on this node"}
}

const diskFile = "disk.qcow2"

// ensureDisk makes the machine's disk on top of the cached image, or grows the
// one that is there. It never shrinks and never replaces one.
func (d *Driver) ensureDisk(ctx context.Context, spec hypervisor.Spec, base string) error {
	dir, err := rootFolder(spec)
	if err != nil {
		return err
	}
	path, want := filepath.Join(dir, diskFile), spec.DiskMiB<<20
	from, err := readQCOW2(base, false)
	if err != nil {
		return err
	}
	if err := inspect(ctx, base, from); err != nil {
		return err
	}
	if from.virtualBytes > want {
		return refuse(fmt.Sprintf("it holds a disk of %d MiB, which is more than the flavor's %d MiB", (from.virtualBytes+1<<20-1)>>20, spec.DiskMiB))
	}
	name, err := image.DiskName(spec.Image)
	if err != nil {
		return err
	}
	held, err := backingName(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.createDisk(ctx, path, name, want)
	case err != nil:
		return &hypervisor.Failure{Reason: nodewire.ReasonVolume, Message: "its disk can't be read", Err: err}
	case held != name:
		return &hypervisor.Failure{Reason: nodewire.ReasonVolume, Message: "its disk was made from another image", Final: true}
	}
	have, err := readQCOW2(path, true)
	if err != nil {
		return &hypervisor.Failure{Reason: nodewire.ReasonVolume, Message: "its disk can't be read", Err: err}
	}
	if have.virtualBytes >= want || d.pid(spec.ID) != 0 {
		return nil
	}
	// Without the backing file, whose name means nothing outside the domain.
	return volumeError(tool(ctx, "qemu-img", "resize", "-q", "json:"+jsonNode(path), strconv.FormatInt(want, 10)))
}

// createDisk leaves either a whole disk or none.
func (d *Driver) createDisk(ctx context.Context, path, base string, bytes int64) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove half a disk: %w", err)
	}
	err := tool(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-F", "qcow2", "-b", base, "-o", "lazy_refcounts=on", fresh, strconv.FormatInt(bytes, 10))
	if err == nil {
		err = os.Chown(fresh, d.owner.uid, d.owner.gid)
	}
	if err == nil {
		err = os.Chmod(fresh, 0o600)
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(volumeError(err), ignoreMissing(os.Remove(fresh)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func volumeError(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "No space left") || strings.Contains(err.Error(), "Disk quota exceeded") {
		return &hypervisor.Failure{Reason: nodewire.ReasonDiskFull, Message: "the node has no room for its disk", Err: err}
	}
	return &hypervisor.Failure{Reason: nodewire.ReasonVolume, Message: "its disk could not be made", Err: err}
}

// backingName is what one of our disks is based on.
func backingName(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 72)
	if _, err := f.ReadAt(head, 0); err != nil {
		return "", err
	}
	at, size := int64(binary.BigEndian.Uint64(head[8:])), int64(binary.BigEndian.Uint32(head[16:]))
	if at <= 0 || size <= 0 || size > 1023 {
		return "", errors.New("it has no backing file")
	}
	name := make([]byte, size)
	if _, err := f.ReadAt(name, at); err != nil {
		return "", err
	}
	return string(name), nil
}

// jsonNode opens one qcow2 file and nothing that it names.
func jsonNode(path string) string {
	raw, _ := json.Marshal(map[string]any{
		"driver": "qcow2", "backing": nil, "file": map[string]any{"driver": "file", "filename": path},
	})
	return string(raw)
}

// inspect has qemu-img's opinion of an image, in narrow limits: a header that
// looks well can still be made to exhaust whoever reads on.
func inspect(ctx context.Context, path string, want qcow2) error {
	out, err := output(ctx, "prlimit", "--as=1073741824", "--cpu=20", "--core=0", "qemu-img", "info", "-U", "-f", "qcow2", "--output=json", path)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return refuse("qemu-img can't read it")
	}
	var info struct {
		VirtualSize int64  `json:"virtual-size"`
		Backing     string `json:"backing-filename"`
		Encrypted   bool   `json:"encrypted"`
		Specific    struct {
			Data struct {
				DataFile string `json:"data-file"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out, &info); err != nil || info.VirtualSize != want.virtualBytes {
		return refuse("its header makes no sense")
	}
	if info.Backing != "" || info.Encrypted || info.Specific.Data.DataFile != "" {
		return refuse("it names other files or is encrypted")
	}
	return nil
}

func tool(ctx context.Context, argv ...string) error {
	_, err := output(ctx, argv...)
	return err
}

func output(ctx context.Context, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w: %s", argv[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	return out, nil
}
