package libvirt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A qcow2 comes from a tenant, and its header can name other files of the host.
// It is read here first, by us: no program opens a file that this refuses.

// Features and header extensions of qcow2 that name another file or hide content.
const (
	featureDirty        = 1 << 0
	featureCorrupt      = 1 << 1
	featureExternalData = 1 << 2
	featureCompression  = 1 << 3
	featureExtendedL2   = 1 << 4

	extensionEnd         = 0
	extensionDataFile    = 0x44415441
	extensionEncryption  = 0x0537be77
	extensionBackingKind = 0xe2792aca
)

// qcow2 is what matters of a header.
type qcow2 struct {
	virtualBytes int64
}

func refuse(message string) error {
	return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: "the image's disk is refused: " + message, Final: true}
}

// CheckQCOW2 refuses a file that is not a self-contained, plain qcow2 disk.
func CheckQCOW2(path string) error {
	_, err := readQCOW2(path, false)
	return err
}

// readQCOW2 reads a header; based allows a backing file, as our own disks have.
func readQCOW2(path string, based bool) (qcow2, error) {
	f, err := os.Open(path)
	if err != nil {
		return qcow2{}, fmt.Errorf("open disk: %w", err)
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return qcow2{}, refuse("it is not a qcow2 file")
	}
	return parseQCOW2(head[:n], based)
}

func parseQCOW2(head []byte, based bool) (qcow2, error) {
	var q qcow2
	if len(head) < 72 || string(head[:4]) != "QFI\xfb" {
		return q, refuse("it is not a qcow2 file")
	}
	be := binary.BigEndian
	version, length := be.Uint32(head[4:]), uint32(72)
	var features uint64
	switch version {
	case 2:
	case 3:
		if len(head) < 104 {
			return q, refuse("its header is cut off")
		}
		features, length = be.Uint64(head[72:]), be.Uint32(head[100:])
	default:
		return q, refuse(fmt.Sprintf("version %d of qcow2 is not known", version))
	}
	size := be.Uint64(head[24:])
	switch {
	case be.Uint64(head[8:]) != 0 && !based:
		return q, refuse("it is based on another file; flatten it with `qemu-img convert`")
	case be.Uint32(head[32:]) != 0:
		return q, refuse("it is encrypted")
	case features&featureExternalData != 0:
		return q, refuse("its data lies in another file")
	case features&featureCorrupt != 0:
		return q, refuse("it is marked as corrupt")
	case features&^uint64(featureDirty|featureCompression|featureExtendedL2) != 0:
		return q, refuse("it needs features of qcow2 that are not known")
	case size == 0 || size > 1<<50:
		return q, refuse("its size makes no sense")
	case be.Uint32(head[20:]) < 9 || be.Uint32(head[20:]) > 21:
		return q, refuse("its clusters make no sense")
	}
	q.virtualBytes = int64(size)
	return q, checkExtensions(head, length, based)
}

// checkExtensions walks what follows the header.
func checkExtensions(head []byte, at uint32, based bool) error {
	for at >= 72 && int(at)+8 <= len(head) {
		kind, size := binary.BigEndian.Uint32(head[at:]), binary.BigEndian.Uint32(head[at+4:])
		switch kind {
		case extensionEnd:
			return nil
		case extensionDataFile:
			return refuse("its data lies in another file")
		case extensionEncryption:
			return refuse("it is encrypted")
		case extensionBackingKind:
			if !based {
				return refuse("it names the form of another file")
			}
		}
		if size > uint32(len(head)) {
			return refuse("its header makes no sense")
		}
		at += 8 + (size+7)&^7
	}
	return refuse("its header makes no sense")
}
