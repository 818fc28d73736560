package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// host is a machine that QEMU emulates, with an IOMMU.
type host struct {
	images  string // what deploy/lab/host.sh made
	work    string // disks and logs of this run
	sockets string // a short path: sockets' names are bounded
	process *os.Process
	ended   chan struct{}
	leave   bool   // it outlives this program
	shell   *shell // root's, for what an outside observer needs
	watch   *shell // the same, for the observer that never stops
	boots   int
	blame   context.CancelCauseFunc // gives up what runs on it, for a fault of the emulator
}

// newHost makes the disk that it writes to.
func newHost(images, work string) (*host, error) {
	h := &host{images: images, work: work}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of the lab's run: %w", err)
	}
	var err error
	if h.sockets, err = os.MkdirTemp("", "lab-"); err != nil {
		return nil, fmt.Errorf("make folder for sockets: %w", err)
	}
	base, err := filepath.Abs(filepath.Join(images, "host.img"))
	if err != nil {
		return nil, err
	}
	return h, command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, h.disk())
}

func (h *host) disk() string     { return filepath.Join(h.work, "disk.qcow2") }
func (h *host) delivery() string { return filepath.Join(h.work, "delivery.img") }
func (h *host) console() string  { return filepath.Join(h.work, fmt.Sprintf("console-%d.log", h.boots)) }

// start boots it with the devices of the topology but those left out, and waits
// for its shell.
func (h *host) start(ctx context.Context, without ...string) error {
	h.boots++
	args := []string{
		"-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off", "-smp", "2", "-m", "5G", "-nodefaults", "-display", "none", "-no-user-config",
		"-object", "memory-backend-ram,id=m0,size=2560M", "-object", "memory-backend-ram,id=m1,size=2560M",
		"-numa", "node,nodeid=0,memdev=m0,cpus=0", "-numa", "node,nodeid=1,memdev=m1,cpus=1",
		"-kernel", filepath.Join(h.images, "vmlinuz"), "-initrd", filepath.Join(h.images, "initrd"),
		"-append", "root=/dev/vda rw console=ttyS0 intel_iommu=on iommu=pt net.ifnames=0 quiet systemd.show_status=false mitigations=off kvm_amd.avic=0 kvm_amd.vgif=0 kvm_amd.vls=0",
		"-device", "intel-iommu,intremap=on",
		"-drive", "if=none,id=d0,format=qcow2,cache=unsafe,discard=unmap,file=" + h.disk(), "-device", "virtio-blk-pci,drive=d0,addr=0x3",
		"-drive", "if=none,id=d1,format=raw,readonly=on,file=" + h.delivery(), "-device", "virtio-blk-pci,drive=d1,addr=0x4",
		"-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=,addr=0x5",
		"-device", "virtio-rng-pci,addr=0x6",
		"-device", "virtio-serial-pci,id=vs,addr=0x7",
		"-chardev", "socket,id=c0,server=on,wait=off,path=" + h.socket("shell"), "-device", "virtserialport,bus=vs.0,chardev=c0,name=lab.shell",
		"-chardev", "socket,id=c1,server=on,wait=off,path=" + h.socket("watch"), "-device", "virtserialport,bus=vs.0,chardev=c1,name=lab.watch",
		"-serial", "file:" + h.console(), "-monitor", "none",
	}
	args = append(args, topology(without)...)
	log, err := os.Create(filepath.Join(h.work, fmt.Sprintf("qemu-%d.log", h.boots)))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !h.leave { // it ends with us, however we end
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start QEMU: %w", err)
	}
	h.process, h.ended = cmd.Process, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(h.ended)
	}()
	note := fmt.Sprintf("%d %d %s\n", cmd.Process.Pid, h.boots, h.sockets)
	if err := os.WriteFile(filepath.Join(h.work, "host"), []byte(note), 0o600); err != nil {
		return err
	}
	return h.connect(ctx)
}

// joinHost finds the host that an earlier run left.
func joinHost(ctx context.Context, images, work string) (*host, error) {
	raw, err := os.ReadFile(filepath.Join(work, "host"))
	if err != nil {
		return nil, fmt.Errorf("find the host that was left: %w", err)
	}
	h := &host{images: images, work: work, leave: true, ended: make(chan struct{})}
	var pid int
	if _, err := fmt.Sscan(string(raw), &pid, &h.boots, &h.sockets); err != nil {
		return nil, fmt.Errorf("find the host that was left: %w", err)
	}
	if h.process, err = os.FindProcess(pid); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.ended)
		for h.process.Signal(syscall.Signal(0)) == nil {
			time.Sleep(time.Second)
		}
	}()
	return h, h.connect(ctx)
}

func (h *host) connect(ctx context.Context) (err error) {
	if h.shell, err = h.open(ctx, "shell"); err != nil {
		return err
	}
	h.watch, err = h.open(ctx, "watch")
	return err
}

func (h *host) socket(name string) string { return filepath.Join(h.sockets, name) }

// open connects to one of its shells and waits until it answers.
func (h *host) open(ctx context.Context, name string) (*shell, error) {
	var conn net.Conn
	err := until(ctx, 20*time.Second, func() (err error) {
		conn, err = net.Dial("unix", h.socket(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the host's shell: %w; QEMU says: %s", err, tail(filepath.Join(h.work, fmt.Sprintf("qemu-%d.log", h.boots))))
	}
	s := newShell(conn)
	return s, h.up(ctx, s)
}

// up waits until a shell answers; it does once the host has booted.
func (h *host) up(ctx context.Context, s *shell) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	// Each question waits longer: those that were given up are answered as well.
	for patience := 4 * time.Second; ; patience = min(2*patience, time.Minute) {
		ask, stop := context.WithTimeout(ctx, patience)
		_, err := s.run(ask, "true")
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-h.ended:
			return fmt.Errorf("the host ended: %s", tail(filepath.Join(h.work, fmt.Sprintf("qemu-%d.log", h.boots))))
		case <-ctx.Done():
			return fmt.Errorf("the host does not answer (%w); its console ends with: %s", err, tail(h.console()))
		default:
		}
	}
}

// stop ends QEMU; a clean end lets the host write its disk first.
func (h *host) stop(ctx context.Context, clean bool) error {
	if h.process == nil {
		return nil
	}
	if clean {
		ask, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, _ = h.shell.run(ask, "systemctl --no-block poweroff")
		cancel()
		select {
		case <-h.ended:
		case <-time.After(2 * time.Minute):
		case <-ctx.Done():
		}
	}
	_ = h.process.Kill()
	<-h.ended
	for _, s := range []*shell{h.shell, h.watch} {
		if s != nil {
			_ = s.conn.Close()
		}
	}
	h.process = nil
	return nil
}

// close ends it and removes what is worth nothing afterwards.
func (h *host) close(keepLogs bool) error {
	if h.leave {
		fmt.Printf("the host goes on: -join takes it up, and `kill %d` ends it\n", h.process.Pid)
		return nil
	}
	err := h.stop(context.Background(), false)
	err = errors.Join(err, os.RemoveAll(h.sockets))
	if !keepLogs {
		return errors.Join(err, os.RemoveAll(h.work))
	}
	return errors.Join(err, os.Remove(h.disk()))
}

// do runs a command on the host that must succeed, and gives what it printed.
func (h *host) do(ctx context.Context, script string) (string, error) {
	return h.shell.run(ctx, script)
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// tail gives the last lines of a file.
func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

// until asks again until there is no error.
func until(ctx context.Context, within time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", within, err)
		case <-tick.C:
		}
	}
}

// left is whether a device of the topology is to be left out.
func left(without []string, name string) bool { return slices.Contains(without, name) }
