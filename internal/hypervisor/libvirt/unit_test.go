package libvirt

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// header is a qcow2's first bytes as qemu-img writes them.
func header(edit func(h []byte)) []byte {
	h := make([]byte, 512)
	copy(h, "QFI\xfb")
	be := binary.BigEndian
	be.PutUint32(h[4:], 3)
	be.PutUint32(h[20:], 16)
	be.PutUint64(h[24:], 1<<30)
	be.PutUint32(h[96:], 4)
	be.PutUint32(h[100:], 104)
	edit(h)
	return h
}

func TestDisksThatNameOtherFilesAreRefused(t *testing.T) {
	t.Parallel()
	be := binary.BigEndian
	extension := func(kind uint32) func([]byte) {
		return func(h []byte) { be.PutUint32(h[104:], kind); be.PutUint32(h[108:], 8); copy(h[112:], "/etc/pas") }
	}
	for name, tc := range map[string]struct {
		head []byte
		says string
	}{
		"plain":                {header(func([]byte) {}), ""},
		"compressed":           {header(func(h []byte) { be.PutUint64(h[72:], featureCompression) }), ""},
		"feature names":        {header(extension(0x6803f857)), ""},
		"version 2":            {header(func(h []byte) { be.PutUint32(h[4:], 2); clear(h[72:]) }), ""},
		"raw":                  {bytes.Repeat([]byte{0xeb}, 512), "not a qcow2"},
		"empty":                {nil, "not a qcow2"},
		"backing file":         {header(func(h []byte) { be.PutUint64(h[8:], 200); be.PutUint32(h[16:], 11); copy(h[200:], "/etc/shadow") }), "based on another file"},
		"backing form":         {header(extension(extensionBackingKind)), "form of another file"},
		"external data":        {header(func(h []byte) { be.PutUint64(h[72:], featureExternalData) }), "lies in another file"},
		"data file's name":     {header(extension(extensionDataFile)), "lies in another file"},
		"encrypted":            {header(func(h []byte) { be.PutUint32(h[32:], 2) }), "encrypted"},
		"encryption's header":  {header(extension(extensionEncryption)), "encrypted"},
		"corrupt":              {header(func(h []byte) { be.PutUint64(h[72:], featureCorrupt) }), "corrupt"},
		"unknown feature":      {header(func(h []byte) { be.PutUint64(h[72:], 1<<20) }), "not known"},
		"no size":              {header(func(h []byte) { be.PutUint64(h[24:], 0) }), "size"},
		"version 9":            {header(func(h []byte) { be.PutUint32(h[4:], 9) }), "version 9"},
		"endless extension":    {header(func(h []byte) { be.PutUint32(h[104:], 7); be.PutUint32(h[108:], 1<<31) }), "makes no sense"},
		"header length beyond": {header(func(h []byte) { be.PutUint32(h[100:], 1<<30) }), "makes no sense"},
	} {
		_, err := parseQCOW2(tc.head, false)
		var f *hypervisor.Failure
		switch {
		case tc.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.says != "" && (!errors.As(err, &f) || !f.Final || !strings.Contains(f.Message, tc.says)):
			t.Errorf("%s: %v, want a refusal that says %q", name, err, tc.says)
		}
	}
}

func TestGuestsHavePlainCardsOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	spec := hypervisor.Spec{Instance: nodewire.Instance{
		ID: "inst_01", Epoch: 3, Generation: 2, OrgID: "org_1", Name: "vm-1", VCPU: 2, MemoryMiB: 2048, DiskMiB: 8192,
		Image: nodewire.Image{Ref: "tenon/debian-12-vm", Digest: "sha256:" + strings.Repeat("a", 64), Embedded: true},
		Devices: []nodewire.Device{
			{GPUUUID: "GPU-a", Mode: "whole", Profile: "whole", SlotEnd: 8}, {GPUUUID: "GPU-b", Mode: "whole", Profile: "whole", SlotEnd: 8},
		},
	}, Grants: []device.Grant{{Emulated: true}, {Emulated: true}}}
	text, err := d.domain(spec, network.Attachment{ID: "inst_01", Address: "10.64.0.9", MAC: "02:76:00:00:00:01", Port: "tv0123456789ab"}, virt{mode: virtTCG})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "domain.xml")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("UPDATE_GOLDEN=1 writes it anew; is this meant?\n%s", diff)
	}
	meta, ok := readMetadata(text)
	if !ok || meta.Epoch != 3 || meta.Generation != 2 || meta.ID != "inst_01" || meta.Cloud != "abcd1234" {
		t.Errorf("recovery would read %+v", meta)
	}
	if diff := cmp.Diff(spec.Devices, meta.Devices); diff != "" {
		t.Error(diff)
	}
	other := spec
	other.Epoch++
	again, err := d.domain(other, network.Attachment{}, virt{mode: virtTCG})
	if err != nil || strings.Contains(again, domainUUID("abcd1234", "inst_01", 3).String()) {
		t.Errorf("another epoch has the same UUID (%v)", err)
	}
}

func testDriver(t *testing.T) *Driver {
	t.Helper()
	n, err := network.New(network.Config{CloudID: "abcd1234", StateDir: t.TempDir(), RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Config{CloudID: "abcd1234", StateDir: "/state", RunDir: "/run/x", Network: n, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// parts decodes settings as cloud-init would.
func parts(t *testing.T, text []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		if p.Header.Get("Content-Transfer-Encoding") == "base64" {
			body = decode64(t, body)
		}
		found[strings.SplitN(p.Header.Get("Content-Type"), ";", 2)[0]] = string(body)
	}
}

func TestSeedJoinsOursAndTheirs(t *testing.T) {
	t.Parallel()
	spec := hypervisor.Spec{Instance: nodewire.Instance{ID: "inst_01", Epoch: 7, Name: "vm-1", SSHKeys: []string{"ssh-ed25519 AAAA \"quoted\" me"}}}
	at := network.Attachment{Address: "10.64.0.9", Gateway: "10.64.0.1", MAC: "02:76:00:00:00:01"}
	theirs := "#!/bin/sh\necho 'péché: \"x\"'\n"
	s, err := makeSeed(spec, at, 22, 1500, []byte(theirs))
	if err != nil {
		t.Fatal(err)
	}
	var meta struct {
		ID   string   `json:"instance-id"`
		Host string   `json:"local-hostname"`
		Keys []string `json:"public-keys"`
	}
	if err := json.Unmarshal(s.meta, &meta); err != nil || meta.ID != "inst_01" || meta.Host != "vm-1" || !cmp.Equal(meta.Keys, spec.SSHKeys) {
		t.Errorf("metadata %s (%v)", s.meta, err)
	}
	next := spec
	next.Epoch = 8
	if again, err := makeSeed(next, at, 22, 1500, nil); err != nil || !bytes.Equal(again.meta, s.meta) {
		t.Errorf("a restart would set the machine up anew: %s (%v)", again.meta, err)
	}
	if !strings.Contains(string(s.network), `"10.64.0.9/22"`) || !strings.Contains(string(s.network), `"via":"10.64.0.1"`) {
		t.Errorf("network %s", s.network)
	}
	got := parts(t, s.user)
	if got["text/plain"] != theirs {
		t.Errorf("the tenant's part became %q", got["text/plain"])
	}
	ours := got["text/cloud-config"]
	if !strings.Contains(ours, `"updates":{"network":{"when":["boot-new-instance","boot"]}}`) {
		t.Errorf("a new address would not be taken up at a later boot: %s", ours)
	}
	var config struct {
		User map[string]any `json:"user"`
		Keys []string       `json:"ssh_authorized_keys"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(ours, "#cloud-config\n")), &config); err != nil || config.User["name"] != "tenon" || !cmp.Equal(config.Keys, spec.SSHKeys) {
		t.Errorf("our part %s (%v)", ours, err)
	}
	// One that is a message of several parts itself, and one that is packed.
	nested := "Content-Type: multipart/mixed;\n boundary=\"b\"\nMIME-Version: 1.0\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--b--\n"
	if s, err = makeSeed(spec, at, 22, 1500, []byte(nested)); err != nil || !strings.Contains(parts(t, s.user)["multipart/mixed"], "text/x-shellscript") {
		t.Errorf("a message of several parts: %v\n%s", err, s.user)
	}
	if s, err = makeSeed(spec, at, 22, 1500, []byte("\x1f\x8bxyz")); err != nil || parts(t, s.user)["application/gzip"] != "\x1f\x8bxyz" {
		t.Errorf("a packed text: %v", err)
	}
}

func TestSpecsThatNoMachineFits(t *testing.T) {
	t.Parallel()
	good := hypervisor.Spec{Instance: nodewire.Instance{ID: "inst_01", OrgID: "org_1", VCPU: 1, MemoryMiB: 512, DiskMiB: 4096}}
	for name, edit := range map[string]func(*hypervisor.Spec){
		"no org":    func(s *hypervisor.Spec) { s.OrgID = "" },
		"a path":    func(s *hypervisor.Spec) { s.ID = "../x" },
		"no memory": func(s *hypervisor.Spec) { s.MemoryMiB = 8 },
		"a slice":   func(s *hypervisor.Spec) { s.Devices = []nodewire.Device{{GPUUUID: "GPU-a", Mode: "mig"}} },
		"too many cards": func(s *hypervisor.Spec) {
			for i := range 16 {
				s.Devices = append(s.Devices, nodewire.Device{GPUUUID: string(rune('a' + i)), Mode: "whole"})
			}
		},
	} {
		bad := good
		edit(&bad)
		var f *hypervisor.Failure
		if err := validate(bad); !errors.As(err, &f) || !f.Final {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := validate(good); err != nil {
		t.Error(err)
	}
}

func TestSerialLogIsReadAcrossATurn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "serial.log")
	write := func(path, text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	write(path+".0", "one ")
	write(path, "two ")
	l, err := openSerialLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	read := func() string {
		text, err := io.ReadAll(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := read(); got != "one two " {
		t.Fatalf("history %q", got)
	}
	write(path, "three ") // and then it is turned over before anyone looked
	if err := os.Rename(path, path+".0"); err != nil {
		t.Fatal(err)
	}
	write(path, "four ")
	if got := read(); got != "three four " {
		t.Errorf("after the turn %q", got)
	}
	if got := string(lastLines([]byte("a\nb\nc\n"), 2)); got != "b\nc\n" {
		t.Errorf("last lines %q", got)
	}
}

func decode64(t *testing.T, text []byte) []byte {
	t.Helper()
	plain, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	return plain
}
