package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// moment is one at which the agent is killed: as soon as a condition holds on the
// host, which bash evaluates without starting anything.
type moment struct{ name, when string }

// Moments of a machine's start, of its run and of its end. A and B are its cards.
var (
	whileStarting = []moment{
		{"one card reserved", `read o </sys/bus/pci/devices/$A/driver_override; [ "$o" = vfio-pci ]`},
		{"one card bound", `[ -e /sys/bus/pci/drivers/vfio-pci/$A ]`},
		{"both cards bound", `[ -e /sys/bus/pci/drivers/vfio-pci/$B ]`},
		{"QEMU there", `compgen -G '/var/lib/tenon-agent/containerd/libvirt/lib/qemu/domain-*/monitor.sock' >/dev/null`},
	}
	whileEnding = []moment{
		{"release begun", `[[ $(</var/lib/tenon-agent/board/board.json) == *releasing* ]]`},
		{"one card back", `[ ! -e /sys/bus/pci/drivers/vfio-pci/$A ]`},
		{"both cards back", `[ ! -e /sys/bus/pci/drivers/vfio-pci/$A ] && [ ! -e /sys/bus/pci/drivers/vfio-pci/$B ]`},
	}
	whileStartingVGPU = []moment{
		{"mediated device made", `compgen -G '/sys/bus/mdev/devices/*' >/dev/null`},
		{"QEMU there", `compgen -G '/var/lib/tenon-agent/containerd/libvirt/lib/qemu/domain-*/monitor.sock' >/dev/null`},
	}
	whileEndingVGPU = []moment{
		{"release begun", `[[ $(</var/lib/tenon-agent/board/board.json) == *releasing* ]]`},
		{"mediated device gone", `! compgen -G '/sys/bus/mdev/devices/*' >/dev/null`},
	}
)

// at gives a moment, or any.
func at(list []moment, random *rand.Rand, n int) moment {
	if n %= len(list) + 1; n < len(list) {
		return list[n]
	}
	return moment{"any moment", fmt.Sprintf(`read -rt 0.%03d -u 9 || true`, random.IntN(999))}
}

// killer counts what it did.
type killer struct {
	l     *lab
	done  int
	made  map[string]int
	fired chan error

	cycles, machines, looks int
	doubled, free           []string
}

// kill has the agent killed at any moment of what happens now.
func (k *killer) kill(ctx context.Context, random *rand.Rand, while string) error {
	k.arm(ctx, moment{while + ", any moment", at(nil, random, 0).when})
	return <-k.fired
}

// arm has the host kill the agent at a moment; the answer comes once it did.
func (k *killer) arm(ctx context.Context, m moment) {
	k.fired = make(chan error, 1)
	script := fmt.Sprintf(`A=%s B=%s
end=$((SECONDS + 60))
until pid=$(systemctl show -P MainPID tenon-agent); [ "$pid" -gt 1 ]; do [ $SECONDS -lt $end ] || exit 3; done
[ -p /run/lab.fifo ] || mkfifo /run/lab.fifo
exec 9<>/run/lab.fifo
until %s; do [ $SECONDS -lt $end ] || exit 4; done
kill -9 "$pid"`, k.l.addresses[portFirst], k.l.addresses[portSecond], m.when)
	go func() {
		_, err := k.l.host.do(ctx, script)
		if err != nil {
			err = fmt.Errorf("kill the agent at the moment %q: %w", m.name, err)
		} else {
			k.made[m.name]++
			k.done++
		}
		k.fired <- err
	}()
}

// whileRunning is how often the agent is killed under a machine that runs.
const whileRunning = 3

// cycle is one machine from its creation to its end, with the agent killed twice
// while it starts, while it runs, and twice while it ends.
func (k *killer) cycle(ctx context.Context, random *rand.Rand, n int) error {
	name, flavor := fmt.Sprintf("lab-kill-%d", n), flavorTwo
	starting, ending, turn := whileStarting, whileEnding, n/4*2+n%4/3
	switch n % 4 {
	case 1:
		return k.repartition(ctx, random)
	case 2:
		flavor, starting, ending, turn = flavorVGPU, whileStartingVGPU, whileEndingVGPU, n/4
	}
	k.machines++
	k.arm(ctx, at(starting, random, turn))
	if err := k.l.create(ctx, name, flavor); err != nil {
		return err
	}
	if err := <-k.fired; err != nil {
		return err
	}
	if err := k.kill(ctx, random, "start"); err != nil {
		return err
	}
	i, err := k.l.await(ctx, name, api.StateRunning, startTakes)
	if err != nil {
		return err
	}
	before, err := k.l.look(ctx, k.l.host.shell)
	if err != nil {
		return err
	}
	for range whileRunning {
		if err := k.kill(ctx, random, "run"); err != nil {
			return err
		}
	}
	if err := k.l.ready(ctx, 2*time.Minute); err != nil {
		return err
	}
	after, err := k.l.look(ctx, k.l.host.shell)
	if err != nil {
		return err
	}
	if a, b := before.qemus[i.ID], after.qemus[i.ID]; a == "" || a != b {
		return fmt.Errorf("the machine's process was %q and is %q: a kill of the agent ended it", a, b)
	}
	k.arm(ctx, at(ending, random, turn))
	if _, err := k.l.cloud.Client.InstanceDelete(ctx, target.Project, name); err != nil {
		return errors.Join(fmt.Errorf("delete %s: %w", name, err), <-k.fired)
	}
	if err := <-k.fired; err != nil {
		return err
	}
	if err := k.kill(ctx, random, "stop"); err != nil {
		return err
	}
	if err := k.l.gone(ctx, i.ID, startTakes); err != nil {
		return err
	}
	return k.l.atRest(ctx)
}

// repartition divides the parent of mediated devices by the other type and by the
// first again, with the agent killed while each is done.
func (k *killer) repartition(ctx context.Context, random *rand.Rand) error {
	for _, typ := range []string{otherType, vgpuType} {
		k.arm(ctx, moment{"repartition, any moment", at(nil, random, 0).when})
		_, err := k.l.divide(ctx, typ)
		if err := errors.Join(err, <-k.fired); err != nil {
			return err
		}
	}
	return k.l.atRest(ctx)
}

// atRest checks that nothing is held and all is offered.
func (l *lab) atRest(ctx context.Context) error {
	return until(ctx, 2*time.Minute, func() error {
		all, err := l.cards(ctx)
		if err != nil {
			return err
		}
		for address, g := range all {
			if g.State != "ready" || len(g.Claims) > 0 || len(g.Slices) > 0 {
				return fmt.Errorf("card %s is %s (%s) with %d claims and %d slices", address, g.State, g.Reason, len(g.Claims), len(g.Slices))
			}
		}
		seen, err := l.look(ctx, l.host.shell)
		if err != nil {
			return err
		}
		if len(seen.open)+len(seen.qemus) > 0 {
			return fmt.Errorf("open groups %v, machines %v", seen.open, seen.qemus)
		}
		if n, err := l.mediated(ctx); err != nil || n > 0 {
			return fmt.Errorf("%d mediated devices are left: %w", n, err)
		}
		return l.bound(ctx)
	})
}

// killing kills the agent as often as it was asked to.
func (l *lab) killing(ctx context.Context) error {
	return l.ok(ctx, fmt.Sprintf("%d × kill -9 of the agent: 0 double owners, 0 devices free while held, each function back", l.kills), func(ctx context.Context) (string, error) {
		random := rand.New(rand.NewPCG(l.seed, 1))
		if l.killer == nil {
			l.killer = &killer{l: l, made: map[string]int{}}
		}
		k := l.killer
		watch := l.observe(ctx)
		_, err := l.divide(ctx, vgpuType) // it is left at the other by a fault of the emulator
		for ; k.done < l.kills && err == nil && ctx.Err() == nil; k.cycles++ {
			if err = k.cycle(ctx, random, k.cycles); err != nil {
				err = fmt.Errorf("cycle %d, after %d kills: %w", k.cycles+1, k.done, err)
			}
		}
		looks, doubled, free := watch.stop()
		k.looks, k.doubled, k.free = k.looks+looks, append(k.doubled, doubled...), append(k.free, free...)
		var moments []string
		for _, name := range slices.Sorted(maps.Keys(k.made)) {
			moments = append(moments, fmt.Sprintf("%d %s", k.made[name], name))
		}
		story := fmt.Sprintf("%d kills in %d machines (%s); %d looks: %d double owners, %d free while held", k.done, k.machines, strings.Join(moments, ", "), k.looks, len(k.doubled), len(k.free))
		if err == nil && len(k.doubled)+len(k.free) > 0 {
			err = errors.New(strings.Join(append(k.doubled, k.free...), "; "))
		}
		if err != nil {
			err = fmt.Errorf("%w; %s", err, story)
		}
		return story, err
	})
}
