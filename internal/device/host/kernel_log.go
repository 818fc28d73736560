package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// KernelLine is a line of the kernel's log.
type KernelLine struct {
	Number    uint64
	SinceBoot time.Duration
	Text      string
}

// ParseKernelLine reads one record of /dev/kmsg. A record that a program wrote
// there is refused: the kernel marks those, so that none can pass for its own.
func ParseKernelLine(record []byte) (KernelLine, bool) {
	head, text, found := bytes.Cut(record, []byte(";"))
	if !found {
		return KernelLine{}, false
	}
	fields := strings.Split(string(head), ",")
	if len(fields) < 3 {
		return KernelLine{}, false
	}
	priority, errP := strconv.ParseUint(fields[0], 10, 32)
	number, errN := strconv.ParseUint(fields[1], 10, 64)
	micro, errM := strconv.ParseInt(fields[2], 10, 64)
	if errP != nil || errN != nil || errM != nil || priority>>3 != 0 || micro < 0 || micro > int64(1<<62/time.Microsecond) {
		return KernelLine{}, false
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return KernelLine{Number: number, SinceBoot: time.Duration(micro) * time.Microsecond, Text: string(line)}, true
}

var (
	xidLine  = regexp.MustCompile(`^NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?(?: GPU-I:([0-9]+))?(?: GPU-CI:[0-9]+)?\): ([0-9]{1,3})(?:, (.*))?$`)
	fellLine = regexp.MustCompile(`^NVRM: GPU (?:at )?(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?: (?:.*: )?GPU has fallen off the bus`)
	whoWords = regexp.MustCompile(`^pid='?([0-9]+|<unknown>)'?, (?:name='?([^,]*?)'?, )?(.*)$`)
)

// KernelSignal reads what NVIDIA's driver says of a card's health.
func KernelSignal(line KernelLine) (Signal, bool) {
	s := Signal{At: line.SinceBoot, Line: line.Number, GI: -1}
	if m := fellLine.FindStringSubmatch(line.Text); m != nil {
		card, ok := canonicalCard(m[1])
		s.Card, s.Fault, s.Text = card, FellOff, line.Text
		return s, ok
	}
	m := xidLine.FindStringSubmatch(line.Text)
	if m == nil {
		return Signal{}, false
	}
	card, ok := canonicalCard(m[1])
	s.Card, s.Text = card, m[4]
	s.XID, _ = strconv.Atoi(m[3])
	if m[2] != "" {
		if gi, err := strconv.Atoi(m[2]); err == nil {
			s.GI = gi
		}
	}
	if who := whoWords.FindStringSubmatch(m[4] + ", "); who != nil {
		s.PID, _ = strconv.Atoi(who[1])
		if s.PID > 0 && who[2] != "<unknown>" {
			s.Command = who[2]
		}
		s.Text = strings.TrimSuffix(who[3], ", ")
	}
	return s, ok && s.XID > 0
}

// canonicalCard is the address of a card that the driver names without function.
func canonicalCard(s string) (string, bool) {
	a, err := pci.ParseAddress(s + ".0")
	return a.String(), err == nil
}

// WatchKernelLog tells every line that the kernel still has, and then new ones,
// until ctx ends. Lines that were overwritten before they were read are lost.
func WatchKernelLog(ctx context.Context, open func() (io.ReadCloser, error), tell func(KernelLine)) error {
	log, err := open()
	if err != nil {
		return fmt.Errorf("open the kernel's log: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = log.Close() })
	defer func() {
		if stop() {
			_ = log.Close()
		}
	}()
	buffer := make([]byte, 16<<10) // a record is shorter; a smaller buffer is refused
	for {
		n, err := log.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, syscall.EPIPE): // overwritten: the next read goes on with the oldest
			continue
		case err != nil:
			return fmt.Errorf("read the kernel's log: %w", err)
		}
		if line, ok := ParseKernelLine(buffer[:n]); ok {
			tell(line)
		}
	}
}

// OpenKernelLog opens this host's.
func OpenKernelLog() (io.ReadCloser, error) {
	return os.OpenFile("/dev/kmsg", os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
