package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// writeHostFiles puts the files that say where a guest is into its own writable
// layer, before anything of it runs: a file of the host would let it write past
// its disk's limit. They belong to the guest's root, which may change them. What
// the image holds under these names, links above all, gives way.
func (d *Driver) writeHostFiles(spec hypervisor.Spec, at network.Attachment, ids network.IDRange) error {
	root, err := os.OpenRoot(d.rootfsPath(spec.ID))
	if err != nil {
		return fmt.Errorf("open root file system: %w", err)
	}
	defer root.Close()
	owner := int(ids.Base)
	if err := root.Mkdir("etc", 0o755); err == nil {
		if err := root.Lchown("etc", owner, owner); err != nil {
			return fmt.Errorf("own /etc: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make /etc: %w", err)
	}
	if info, err := root.Stat("etc"); err != nil || !info.IsDir() {
		return startFailure("the image's /etc is not a folder", err)
	}
	for name, body := range map[string]string{
		"etc/hosts":       fmt.Sprintf("127.0.0.1\tlocalhost\n%s\t%s\n", at.Address, spec.Name) + d.peerHosts(spec),
		"etc/resolv.conf": "nameserver " + at.Gateway + "\n",
		"etc/hostname":    spec.Name + "\n",
	} {
		if err := replaceFile(root, name, body, owner); err != nil {
			return fmt.Errorf("write /%s: %w", name, err)
		}
	}
	return nil
}

// peerHosts names the other guests of its group.
func (d *Driver) peerHosts(spec hypervisor.Spec) string {
	var lines strings.Builder
	for _, p := range spec.Peers {
		if address := d.PeerAddress(p); address != "" && p.ID != spec.ID {
			fmt.Fprintf(&lines, "%s\t%s\n", address, p.Name)
		}
	}
	return lines.String()
}

// PeerAddress implements hypervisor.Neighbours.
func (d *Driver) PeerAddress(p nodewire.Peer) string {
	r, ok := d.readRecord(p.ID)
	at, attached := d.net.Lookup(p.ID)
	if !ok || !attached || r.Epoch != p.Epoch {
		return ""
	}
	return at.Address
}

func replaceFile(root *os.Root, name, body string, owner int) error {
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(body)
	return errors.Join(err, f.Chmod(0o644), f.Chown(owner, owner), f.Close())
}
