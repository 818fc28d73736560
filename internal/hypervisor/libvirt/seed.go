package libvirt

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// seed is what cloud-init reads from the settings disk (its NoCloud source).
// JSON is YAML, so nothing that a tenant gave is ever pasted into text.
type seed struct {
	meta, user, network []byte
}

// vmUser is who the keys given at creation log in as, whatever the image's own
// default user is called.
const vmUser = "tenon"

func makeSeed(spec hypervisor.Spec, at network.Attachment, prefixBits, mtu int, userData []byte) (seed, error) {
	keys := append([]string{}, spec.SSHKeys...)
	meta, err := json.Marshal(map[string]any{
		// One instance is set up once: its id, and not its epoch, names the set-up.
		"instance-id": spec.ID, "local-hostname": spec.Name, "public-keys": keys,
	})
	if err != nil {
		return seed{}, fmt.Errorf("write metadata: %w", err)
	}
	net, err := json.Marshal(map[string]any{
		"version": 2,
		"ethernets": map[string]any{"eth0": map[string]any{
			"match": map[string]any{"macaddress": at.MAC}, "set-name": "eth0", "mtu": mtu,
			"dhcp4": false, "dhcp6": false,
			"addresses":   []string{fmt.Sprintf("%s/%d", at.Address, prefixBits)},
			"routes":      []any{map[string]any{"to": "0.0.0.0/0", "via": at.Gateway}},
			"nameservers": map[string]any{"addresses": []string{at.Gateway}},
		}},
	})
	if err != nil {
		return seed{}, fmt.Errorf("write network settings: %w", err)
	}
	user, err := userPart(keys, userData)
	return seed{meta, user, net}, err
}

// userPart joins our settings and the tenant's as two parts, ours first: where
// both set one thing the tenant's holds. The keys are in the metadata as well,
// where no part can take them away.
func userPart(keys []string, theirs []byte) ([]byte, error) {
	ours, err := json.Marshal(map[string]any{
		"user": map[string]any{
			"name": vmUser, "gecos": "Tenon", "lock_passwd": true, "shell": "/bin/bash",
			"sudo": "ALL=(ALL) NOPASSWD:ALL", "groups": "adm, sudo",
		},
		"ssh_authorized_keys": keys,
		// Its address is what the settings say now, and not what they said at first.
		"updates":  map[string]any{"network": map[string]any{"when": []string{"boot-new-instance", "boot"}}},
		"growpart": map[string]any{"mode": "auto", "devices": []string{"/"}},
	})
	if err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.SetBoundary("tenon-settings-5f1b7c"); err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	err = addPart(w, "text/cloud-config", append([]byte("#cloud-config\n"), ours...))
	if err == nil && len(theirs) > 0 {
		err = addTheirs(w, theirs)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	head := fmt.Sprintf("MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=%q\r\n\r\n", w.Boundary())
	return append([]byte(head), body.Bytes()...), nil
}

// addTheirs leaves it to cloud-init what a text is, by its first line. What is a
// multipart message itself goes in as one.
func addTheirs(w *multipart.Writer, theirs []byte) error {
	if bytes.HasPrefix(theirs, []byte{0x1f, 0x8b}) {
		return addPart(w, "application/gzip", theirs)
	}
	start := strings.ToLower(string(theirs[:min(len(theirs), 20)]))
	if !strings.HasPrefix(start, "content-type:") && !strings.HasPrefix(start, "mime-version:") {
		return addPart(w, "text/plain", theirs)
	}
	text := strings.ReplaceAll(string(theirs), "\r\n", "\n")
	head, body, _ := strings.Cut(text, "\n\n")
	header := textproto.MIMEHeader{}
	for _, line := range strings.Split(strings.ReplaceAll(strings.ReplaceAll(head, "\n ", " "), "\n\t", " "), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	_, err = part.Write([]byte(body))
	return err
}

func addPart(w *multipart.Writer, kind string, content []byte) error {
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Type": {kind}, "MIME-Version": {"1.0"}, "Content-Transfer-Encoding": {"base64"},
	})
	if err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(content)
	for len(text) > 0 {
		n := min(76, len(text))
		if _, err := part.Write([]byte(text[:n] + "\r\n")); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// writeSeed makes the settings disk. It may hold a tenant's secrets: it lies in
// memory, and only QEMU's user can read it.
func (d *Driver) writeSeed(ctx context.Context, spec hypervisor.Spec, at network.Attachment) error {
	var userData []byte
	if spec.HasUserData {
		if spec.Secrets == nil {
			return &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: "its user data can't be fetched"}
		}
		s, err := spec.Secrets(ctx)
		if err != nil {
			return &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: "its user data can't be fetched", Err: err}
		}
		userData = s.UserData
	}
	s, err := makeSeed(spec, at, d.net.PrefixBits(), d.net.MTU(), userData)
	if err != nil {
		return err
	}
	work := d.seedWork(spec.ID)
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("clear settings folder: %w", err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return fmt.Errorf("make settings folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	for name, text := range map[string][]byte{"meta-data": s.meta, "user-data": s.user, "network-config": s.network} {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o600); err != nil {
			return fmt.Errorf("write settings: %w", err)
		}
	}
	path := d.seedPath(spec.ID)
	fresh := filepath.Join(work, "seed.iso")
	if err := tool(ctx, "genisoimage", "-quiet", "-V", "cidata", "-J", "-r", "-o", fresh,
		filepath.Join(work, "meta-data"), filepath.Join(work, "user-data"), filepath.Join(work, "network-config")); err != nil {
		return fmt.Errorf("make settings disk: %w", err)
	}
	if err := os.Chmod(fresh, 0o600); err != nil {
		return fmt.Errorf("close settings disk: %w", err)
	}
	if err := os.Chown(fresh, d.owner.uid, d.owner.gid); err != nil {
		return fmt.Errorf("give settings disk to QEMU: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("keep settings disk: %w", err)
	}
	return nil
}

func (d *Driver) seedPath(id string) string { return filepath.Join(d.machineDir(id), "seed.iso") }

// seedWork lies beside the machine's folder, in the same mount.
func (d *Driver) seedWork(id string) string { return filepath.Join(machinesDir(d.cfg), ".seed-"+id) }
