package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// owner is a process that has a VFIO group open.
type owner struct {
	pid, instance string
}

// sight is one look at the host: what the kernel says, and nobody else.
type sight struct {
	groups map[string]string  // by function or mediated device
	open   map[string][]owner // by group
	qemus  map[string]string  // process by instance
}

const lookAtGroups = `ls -l /sys/bus/pci/devices/*/iommu_group /sys/bus/mdev/devices/*/iommu_group 2>/dev/null | sed -n 's|.*/\([^/ ]*\)/iommu_group -> .*/\([0-9]*\)$|group \1 \2|p'
for p in $(pgrep -f 'qemu-system-x86_64 -name guest=tenon'); do
	n=$(tr '\0' '\n' </proc/$p/cmdline | grep -o -m 1 'inst_[0-9a-z]\{26\}') || continue
	echo "qemu $p $n"
	ls -l /proc/$p/fd 2>/dev/null | sed -n "s|.* -> /dev/vfio/\([0-9][0-9]*\)\$|open \1 $p $n|p" | sort -u
done
true`

var instanceForm = regexp.MustCompile(`^inst_[0-9a-z]{26}$`)

func (l *lab) look(ctx context.Context, by *shell) (*sight, error) {
	text, err := by.run(ctx, lookAtGroups)
	if err != nil {
		return nil, err
	}
	s := &sight{groups: map[string]string{}, open: map[string][]owner{}, qemus: map[string]string{}}
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) == 3 && f[0] == "group":
			s.groups[f[1]] = f[2]
		case len(f) == 4 && f[0] == "open":
			s.open[f[1]] = append(s.open[f[1]], owner{f[2], f[3]})
		case len(f) == 3 && f[0] == "qemu" && instanceForm.MatchString(f[2]):
			s.qemus[f[2]] = f[1]
		}
	}
	return s, nil
}

// observer compares, as long as it runs, who has the host's devices open with who
// owns them by the API.
type observer struct {
	mu      sync.Mutex
	looks   int
	doubled []string // groups that two machines had open
	free    []string // groups that a machine had open and that nobody owned
	cancel  context.CancelFunc
	done    chan struct{}
}

// observe looks every second until stop.
func (l *lab) observe(ctx context.Context) *observer {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			o.once(ctx, l)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return o
}

// once asks the API before and after it looks at the host: what is open meanwhile
// must be owned in one of both, and is looked at again before it counts.
func (o *observer) once(ctx context.Context, l *lab) {
	for try := range 3 {
		before, err := l.owned(ctx)
		if err != nil {
			return // the control plane was not reached: nothing is known
		}
		seen, err := l.look(ctx, l.host.watch)
		if err != nil {
			return
		}
		after, err := l.owned(ctx)
		if err != nil {
			return
		}
		var doubled, free []string
		for group, owners := range seen.open {
			names := map[string]bool{}
			for _, w := range owners {
				names[w.instance] = true
			}
			if len(names) > 1 {
				doubled = append(doubled, fmt.Sprintf("group %s is open in %v", group, owners))
			}
			for name := range names {
				for _, card := range seen.cardsOf(group) {
					if !before[name][card] && !after[name][card] {
						free = append(free, fmt.Sprintf("group %s of %s is open in the machine of %s, which does not own it", group, card, name))
					}
				}
			}
		}
		o.mu.Lock()
		o.looks++
		if try == 2 {
			o.doubled, o.free = append(o.doubled, doubled...), append(o.free, free...)
		}
		o.mu.Unlock()
		if len(doubled)+len(free) == 0 {
			return
		}
	}
}

// parent stands for the address of the card whose vGPUs are mediated devices.
const parent = "mdev"

// cardsOf names the cards of a group: a companion goes with function 0.
func (s *sight) cardsOf(group string) (out []string) {
	for name, g := range s.groups {
		card := parent
		if strings.Count(name, ":") == 2 {
			card = name[:len(name)-1] + "0"
		}
		if g == group && !slices.Contains(out, card) {
			out = append(out, card)
		}
	}
	return out
}

// owned is which cards of the node each instance has a claim on, by the control
// plane.
func (l *lab) owned(ctx context.Context) (map[string]map[string]bool, error) {
	n, err := l.node(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]bool{}
	for _, g := range n.GPUs {
		card := g.PCIAddress
		if strings.HasPrefix(card, softBus) {
			card = parent
		}
		for _, c := range g.Claims {
			if out[c.InstanceID] == nil {
				out[c.InstanceID] = map[string]bool{}
			}
			out[c.InstanceID][card] = true
		}
	}
	return out, nil
}

// stop ends it and says what it saw.
func (o *observer) stop() (looks int, doubled, free []string) {
	o.cancel()
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.doubled)
	slices.Sort(o.free)
	return o.looks, slices.Compact(o.doubled), slices.Compact(o.free)
}
