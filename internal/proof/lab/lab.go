package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// lab is one run.
type lab struct {
	cloud           *target.Target
	host            *host
	programs, units string
	kills           int
	seed            uint64
	began           time.Time
	joined          bool
	only            []string

	passed, failed int
	faults         int               // of the emulator
	killer         *killer           // goes on where a fault of the emulator ended it
	addresses      map[string]string // by port of the topology: the function below it
	original       map[string]string // by function: the driver that it had when the host came up
}

// errStop ends a run whose later checks would only repeat what failed.
var errStop = errors.New("what follows needs it")

// ok makes one check and prints what came of it. detail may be empty.
func (l *lab) ok(ctx context.Context, name string, check func(ctx context.Context) (detail string, err error)) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	began := time.Now()
	detail, err := check(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	took := fmt.Sprintf("%.1f s", time.Since(began).Seconds())
	if err != nil {
		l.failed++
		fmt.Printf("FAILED %s (%s): %v\n", name, took, err)
		return fmt.Errorf("%s: %w", name, errStop)
	}
	l.passed++
	if detail != "" {
		detail = ": " + detail
	}
	fmt.Printf("ok     %s (%s)%s\n", name, took, detail)
	return nil
}

// phase prints how long a part of the run took.
func (l *lab) phase(ctx context.Context, name string, part func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	began := time.Now()
	err := part(ctx)
	fmt.Printf("       -- %s took %.0f s, %.0f s since the start\n", name, time.Since(began).Seconds(), time.Since(l.began).Seconds())
	return err
}

// collect keeps what helps to find out why a check failed.
func (l *lab) collect(work string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if l.host.shell == nil {
		return
	}
	for name, script := range map[string]string{
		"agent.log":    "journalctl -q --no-pager -o short-precise -u tenon-agent -u tenon-watchdog | tail -n 3000",
		"libvirt.log":  "journalctl -q --no-pager -o short-precise -u tenon-libvirtd -u tenon-virtlogd | tail -n 500",
		"kernel.log":   "journalctl -q --no-pager -o short-precise -k | tail -n 1500",
		"machines.log": "for f in $(find /var/lib/tenon-agent -path '*log*' -name '*.log'); do echo == $f; tail -n 60 $f; done",
		"ledger.json":  "cat /var/lib/tenon-agent/board/*.json",
		"processes":    "ps axww -o pid,etimes,stat,args",
	} {
		text, err := l.host.shell.run(ctx, script)
		if err != nil {
			text += "\n" + err.Error()
		}
		_ = os.WriteFile(filepath.Join(work, name), []byte(text+"\n"), 0o600)
	}
}

const firstPart = "boot and enrolment"

// checks makes all of them, in the order in which one needs another.
func (l *lab) checks(ctx context.Context) {
	fmt.Printf("cloud %s, seed %d, %d kills\n", l.cloud.ID, l.seed, l.kills)
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{firstPart, l.enrol},
		{"inventory", l.inventory},
		{"offers", l.offer},
		{"passthrough", l.passthrough},
		{"quarantine", l.quarantine},
		{"vgpus", l.vgpus},
		{"kills", l.killing},
		{"upgrade and reboot", l.upgrade},
	} {
		if l.only != nil && !slices.Contains(l.only, part.name) && (l.joined || part.name != firstPart) {
			continue
		}
		if err := l.part(ctx, part.name, part.do); err != nil {
			return
		}
	}
}

func (l *lab) enrol(ctx context.Context) error {
	if l.joined {
		return errors.Join(l.sweep(ctx), l.ready(ctx, time.Minute))
	}
	err := l.ok(ctx, "a host with an IOMMU boots", func(ctx context.Context) (string, error) {
		if err := l.deliver(ctx); err != nil {
			return "", err
		}
		if err := l.host.start(ctx); err != nil {
			return "", err
		}
		return l.host.do(ctx, `echo "Linux $(uname -r), $(ls /sys/kernel/iommu_groups | wc -l) IOMMU groups"`)
	})
	if err != nil {
		return err
	}
	return l.ok(ctx, "the agent is installed, enrols and is ready", func(ctx context.Context) (string, error) {
		if err := l.install(ctx); err != nil {
			return "", err
		}
		if err := l.ready(ctx, 3*time.Minute); err != nil {
			return "", err
		}
		n, err := l.node(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d vCPU, %d MiB, %d cards, %v", n.VCPU, n.MemoryMiB, len(n.GPUs), n.Drivers), nil
	})
}
