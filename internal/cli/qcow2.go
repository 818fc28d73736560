package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// What a reader of a qcow2 file must understand, in version 3 of the format.
	qcow2Corrupt      = 1 << 1
	qcow2ExternalData = 1 << 2
	qcow2DataFile     = 0x44415441 // a header extension: the data file's name
)

// checkDisk says early what a node would refuse, by the file's header.
func checkDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if what := diskProblem(head[:n]); what != "" {
		return fmt.Errorf("%s %s", path, what)
	}
	return nil
}

// diskProblem is what makes a header not one of a plain disk in one file.
func diskProblem(head []byte) string {
	be := binary.BigEndian
	if len(head) < 72 || string(head[:4]) != "QFI\xfb" {
		return "is not a qcow2 disk: qemu-img convert -O qcow2 makes one"
	}
	var features uint64
	at := uint32(72)
	if be.Uint32(head[4:]) >= 3 {
		if len(head) < 104 {
			return "is cut off within its header"
		}
		features, at = be.Uint64(head[72:]), be.Uint32(head[100:])
	}
	switch {
	case be.Uint64(head[8:]) != 0: // where a backing file's name lies
		return "is based on another file: qemu-img convert -O qcow2 flattens it"
	case features&qcow2ExternalData != 0 || hasExtension(head, at, qcow2DataFile):
		return "keeps its data in another file: qemu-img convert -O qcow2 makes one file of both"
	case be.Uint32(head[32:]) != 0:
		return "is encrypted: a node could not read it"
	case features&qcow2Corrupt != 0:
		return "is marked as corrupt: see qemu-img check"
	}
	return ""
}

// hasExtension looks for a header extension, from at on.
func hasExtension(head []byte, at, wanted uint32) bool {
	for at >= 72 && int64(at)+8 <= int64(len(head)) {
		kind, size := binary.BigEndian.Uint32(head[at:]), binary.BigEndian.Uint32(head[at+4:])
		switch {
		case kind == wanted:
			return true
		case kind == 0 || int64(size) > int64(len(head)):
			return false
		}
		at += 8 + (size+7)&^7
	}
	return false
}
