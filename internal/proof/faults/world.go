package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cuts are rules in a table of our own: packets between a node's address and the
// node door are dropped, those of standing connections too.
func (b *breaker) table() string { return "tenon_faults_" + b.cloud.ID }

func nft(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (b *breaker) cutProbe(ctx context.Context) error {
	return nft(ctx, fmt.Sprintf(`
add table inet %[1]s
delete table inet %[1]s
table inet %[1]s {
	set cut { type ipv4_addr; }
	chain in { type filter hook input priority -300; ip saddr @cut tcp dport { %[2]s } drop; }
	chain out { type filter hook output priority -300; ip daddr @cut tcp sport { %[2]s } drop; }
}`, b.table(), strings.Join(b.cloud.NodePorts, ", ")))
}

// cut separates one node: the local one, or a simulated one, which dials from an
// address of its own. Most cuts are short; a few last until the node is fenced.
func (b *breaker) cut(ctx context.Context, r *rand.Rand) (string, error) {
	address, who := "127.0.0.1", "local"
	if n := len(b.simulated()); n > 0 && r.IntN(3) > 0 {
		i := r.IntN(n)
		address, who = fmt.Sprintf("127.1.%d.%d", i/250, i%250+1), fmt.Sprintf("simulated node %d", i+1)
	}
	d := between(r, time.Second, 25*time.Second)
	b.mu.Lock()
	if b.cuts < b.long && who != "local" {
		b.cuts++
		d = between(r, 150*time.Second, 200*time.Second)
	}
	b.mu.Unlock()
	if err := nft(ctx, fmt.Sprintf("add element inet %s cut { %s }", b.table(), address)); err != nil {
		return "", err
	}
	wait(ctx, d)
	b.uncut(address)
	return fmt.Sprintf("cut %s for %.0f s", who, d.Seconds()), nil
}

// uncut joins a node again; empty: all of them.
func (b *breaker) uncut(address string) {
	script := fmt.Sprintf("delete table inet %s", b.table())
	if address != "" {
		script = fmt.Sprintf("delete element inet %s cut { %s }", b.table(), address)
	}
	_ = nft(context.Background(), script)
}

// The disk is filled only where the cloud has a small file system to itself.
const smallDisk = 32 << 30

func (b *breaker) ballast() string { return filepath.Join(b.cloud.State, "faults.ballast") }

func (b *breaker) diskProbe() error {
	var fs, root unix.Statfs_t
	if err := errors.Join(unix.Statfs(b.cloud.State, &fs), unix.Statfs("/", &root)); err != nil {
		return err
	}
	if fs.Fsid == root.Fsid || int64(fs.Blocks)*fs.Bsize > smallDisk {
		return errors.New("the cloud's state folder has no small file system of its own")
	}
	return nil
}

func (b *breaker) fill(ctx context.Context, d time.Duration) error {
	defer b.unfill()
	f, err := os.OpenFile(b.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	end := time.Now().Add(d)
	var at int64
	for step := int64(1 << 30); time.Now().Before(end) && ctx.Err() == nil; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, step); {
		case err == nil:
			at += step
		case errors.Is(err, syscall.ENOSPC) && step > 4096:
			step /= 2
		case errors.Is(err, syscall.ENOSPC): // whoever frees a block loses it again
			wait(ctx, 20*time.Millisecond)
		default:
			return err
		}
	}
	return nil
}

func (b *breaker) unfill() { _ = os.Remove(b.ballast()) }

func (b *breaker) clockProbe() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

// jump sets the host's clock off, and right again by as much.
func (b *breaker) jump(ctx context.Context, by, d time.Duration) error {
	if err := b.shift(by); err != nil {
		return err
	}
	wait(ctx, d)
	b.unjump()
	return nil
}

func (b *breaker) unjump() {
	b.mu.Lock()
	off := b.clock
	b.mu.Unlock()
	if off != 0 {
		if err := b.shift(-off); err != nil {
			fmt.Fprintf(os.Stderr, "faults: the clock is off by %s: %v\n", off, err)
		}
	}
}

func (b *breaker) shift(by time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	then := unix.NsecToTimespec(now.Nano() + int64(by))
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &then); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	b.clock += by
	return nil
}
