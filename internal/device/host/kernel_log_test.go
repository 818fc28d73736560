package host_test

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

func TestKernelLinesOfCards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want host.Signal // without time and number
	}{
		{"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", host.Signal{Card: "0000:3b:00.0", XID: 79, GI: -1, Text: "GPU has fallen off the bus."}},
		{"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", host.Signal{Card: "0000:3b:00.0", XID: 79, GI: -1, Text: "GPU has fallen off the bus."}},
		{"NVRM: Xid (PCI:0000:CB:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault", host.Signal{Card: "0000:cb:00.0", XID: 31, PID: 4711, Command: "python3", GI: -1, Text: "Ch 00000008, intr 00000000. MMU Fault"}},
		{"NVRM: Xid (PCI:0001:c8:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No", host.Signal{Card: "0001:c8:00.0", XID: 94, PID: 7194, GI: 5, Text: "Contained: CE User Channel (0x9). RST: No, D-RST: No"}},
		{"NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a, Graphics Exception", host.Signal{Card: "0000:3b:00.0", XID: 13, PID: 9, Command: "a", GI: 1, Text: "Graphics Exception"}},
		{"NVRM: Xid (0000:03:00): 14, Channel 00000001", host.Signal{Card: "0000:03:00.0", XID: 14, GI: -1, Text: "Channel 00000001"}},
		{"NVRM: Xid (PCI:0000:01:00): 119, pid=1, name=x y, Timeout after 45s of waiting for RPC response", host.Signal{Card: "0000:01:00.0", XID: 119, PID: 1, Command: "x y", GI: -1, Text: "Timeout after 45s of waiting for RPC response"}},
		{"NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", host.Signal{Card: "0000:3b:00.0", Fault: host.FellOff, GI: -1, Text: "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."}},
		{"NVRM: GPU at PCI:0000:3b:00: GPU-6b8a5b57-1b0c-4e3b-a2b1-2b1c3d4e5f60", host.Signal{}},
		{"nvidia 0000:3b:00.0: Xid (PCI:0000:3b:00): 79, forged", host.Signal{}},
		{"NVRM: Xid (PCI:0000:3b:00): abc, pid=1", host.Signal{}},
		{"NVRM: Xid (PCI:0000:3b:20): 79, no such slot", host.Signal{}},
		{"NVRM: Xid (PCI:0000:3b:00): 0, nothing", host.Signal{}},
		{"usb 1-1: new high-speed USB device", host.Signal{}},
		{"", host.Signal{}},
	} {
		got, ok := host.KernelSignal(host.KernelLine{Text: c.text})
		if ok != (c.want.Card != "") {
			t.Errorf("%q: read %v", c.text, ok)
		}
		if diff := cmp.Diff(c.want, got); ok && diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

func TestRecordsOfTheKernelsLog(t *testing.T) {
	t.Parallel()
	got, ok := host.ParseKernelLine([]byte("4,1234,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"))
	want := host.KernelLine{Number: 1234, SinceBoot: 5 * time.Second, Text: "NVRM: Xid (PCI:0000:3b:00): 79, x"}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	if _, ok := host.ParseKernelLine([]byte("6,1,1,-,caller=T12;x\n")); !ok {
		t.Error("a record with more fields is not read")
	}
	for name, record := range map[string]string{
		"written by a program": "12,1235,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n", // facility 1
		"no text":              "4,1,2,-",
		"no numbers":           "a,b,c;x",
		"negative time":        "4,1,-5,-;x",
		"too few fields":       "4,1;x",
		"empty":                "",
	} {
		if got, ok := host.ParseKernelLine([]byte(record)); ok {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

func FuzzKernelLine(f *testing.F) {
	f.Add([]byte("4,1234,5000000,-;NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, Contained\n"))
	f.Fuzz(func(t *testing.T, record []byte) {
		line, ok := host.ParseKernelLine(record)
		if !ok {
			return
		}
		if s, ok := host.KernelSignal(line); ok && (s.Card == "" || s.XID == 0 && s.Fault == "" || s.At < 0) {
			t.Errorf("%q is %+v", record, s)
		}
	})
}

// script is a log of records and errors.
type script struct {
	steps  []any
	closed chan struct{}
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.steps) == 0 {
		<-s.closed
		return 0, os.ErrClosed
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	if err, bad := step.(error); bad {
		return 0, err
	}
	return copy(p, step.(string)), nil
}

func (s *script) Close() error { close(s.closed); return nil }

func TestTheLogGoesOnAfterAGapAndEndsWithItsReader(t *testing.T) {
	t.Parallel()
	log := &script{steps: []any{"4,1,10,-;one\n", &os.PathError{Op: "read", Path: "/dev/kmsg", Err: syscall.EPIPE}, "nonsense", "4,9,20,-;two\n"}, closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	err := host.WatchKernelLog(ctx, func() (io.ReadCloser, error) { return log, nil }, func(l host.KernelLine) {
		if got = append(got, l.Text); l.Text == "two" {
			cancel()
		}
	})
	if diff := cmp.Diff([]string{"one", "two"}, got); !errors.Is(err, context.Canceled) || diff != "" {
		t.Error(err, diff)
	}
	broken := &script{steps: []any{syscall.EIO}, closed: make(chan struct{})}
	if err := host.WatchKernelLog(t.Context(), func() (io.ReadCloser, error) { return broken, nil }, nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	if err := host.WatchKernelLog(t.Context(), func() (io.ReadCloser, error) { return nil, os.ErrPermission }, nil); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
}

func TestThisHostsLogCanBeRead(t *testing.T) {
	t.Parallel()
	file, err := host.OpenKernelLog()
	if err != nil {
		t.Skipf("this host's kernel log is closed to us: %v", err)
	}
	_ = file.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lines, last := 0, uint64(0)
	err = host.WatchKernelLog(ctx, host.OpenKernelLog, func(l host.KernelLine) {
		if l.Number <= last && lines > 0 {
			t.Errorf("line %d after %d", l.Number, last)
		}
		if lines, last = lines+1, l.Number; lines == 3 {
			cancel()
		}
	})
	if lines < 3 && ctx.Err() == context.DeadlineExceeded {
		t.Skipf("this host's kernel log has %d lines of the kernel's", lines)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%d lines, then %v", lines, err)
	}
}
