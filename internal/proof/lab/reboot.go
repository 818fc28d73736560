package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// upgrade replaces the agent under running machines, and then boots the host under
// them.
func (l *lab) upgrade(ctx context.Context) error {
	const pass, vgpu = "lab-stay", "lab-stay-vgpu"
	var ids []string
	held := map[string][]string{} // devices by instance
	booted := map[string]string{} // what names the boot of the system inside
	err := l.ok(ctx, "an upgrade of the agent leaves machines running", func(ctx context.Context) (string, error) {
		for _, m := range [][2]string{{pass, flavorTwo}, {vgpu, flavorVGPU}} {
			if err := l.create(ctx, m[0], m[1]); err != nil {
				return "", err
			}
			if _, err := l.said(ctx, m[0], bootTakes); err != nil { // one boots at a time
				return "", err
			}
		}
		for _, name := range []string{pass, vgpu} {
			i, err := l.await(ctx, name, api.StateRunning, startTakes)
			if err != nil {
				return "", err
			}
			ids, held[i.ID] = append(ids, i.ID), devices(i)
		}
		before, err := l.look(ctx, l.host.shell)
		if err != nil {
			return "", err
		}
		_, err = l.host.do(ctx, `set -e
cp /usr/local/bin/tenon-agent /usr/local/bin/tenon-agent.new
mv /usr/local/bin/tenon-agent.new /usr/local/bin/tenon-agent
systemctl restart tenon-watchdog tenon-agent`)
		if err != nil {
			return "", err
		}
		if err := l.ready(ctx, 2*time.Minute); err != nil {
			return "", err
		}
		after, err := l.look(ctx, l.host.shell)
		if err != nil {
			return "", err
		}
		for _, id := range ids {
			if before.qemus[id] == "" || before.qemus[id] != after.qemus[id] {
				return "", fmt.Errorf("the process of %s was %q and is %q", id, before.qemus[id], after.qemus[id])
			}
		}
		return fmt.Sprintf("the same processes %s and %s", after.qemus[ids[0]], after.qemus[ids[1]]), nil
	})
	if err != nil {
		return err
	}
	err = l.ok(ctx, "a reboot of the host: both machines come back with their devices", func(ctx context.Context) (string, error) {
		for _, name := range []string{pass, vgpu} {
			lines, err := l.said(ctx, name, bootTakes)
			if err != nil {
				return "", err
			}
			booted[name] = strings.Join(starting(lines, "boot"), " ")
		}
		if err := l.reboot(ctx); err != nil {
			return "", err
		}
		var story []string
		for n, name := range []string{pass, vgpu} {
			if err := l.again(ctx, name); err != nil {
				return "", err
			}
			i, err := l.get(ctx, name)
			if err != nil {
				return "", err
			}
			if got := devices(i); !slices.Equal(got, held[ids[n]]) {
				return "", fmt.Errorf("%s had %v and has %v", name, held[ids[n]], got)
			}
			story = append(story, name+" has "+strings.Join(devices(i), ", "))
		}
		return strings.Join(story, "; "), l.bound(ctx, portFirst, portSecond)
	})
	if err != nil {
		return err
	}
	_ = l.ok(ctx, "after it their devices work inside", func(ctx context.Context) (string, error) {
		for _, name := range []string{pass, vgpu} {
			if _, err := l.saidAnew(ctx, name, booted[name], bootTakes); err != nil {
				return "", err
			}
		}
		text, err := l.insideEDU(ctx, pass, 2)
		if err != nil {
			return "", err
		}
		lines, err := l.said(ctx, vgpu, bootTakes)
		if err != nil {
			return "", err
		}
		if found := starting(lines, "mtty"); len(found) != 1 || !strings.HasSuffix(found[0], " wrote=lab read=lab") {
			return "", fmt.Errorf("in %s: %q", vgpu, found)
		}
		return text, nil
	})
	return l.missing(ctx, pass, vgpu)
}

// missing boots the host without one of the cards of a machine that ran.
func (l *lab) missing(ctx context.Context, pass, vgpu string) error {
	gone := l.addresses[portSecond]
	err := l.ok(ctx, "booted without one of its cards, a machine does not start, and says which is missing", func(ctx context.Context) (string, error) {
		if err := l.host.stop(ctx, true); err != nil {
			return "", err
		}
		if err := l.host.start(ctx, portSecond); err != nil {
			return "", err
		}
		if err := l.ready(ctx, 5*time.Minute); err != nil {
			return "", err
		}
		text := ""
		err := until(ctx, 2*time.Minute, func() error {
			i, err := l.get(ctx, pass)
			if err != nil {
				return err
			}
			if text = fmt.Sprintf("%s: %s", i.State, describe(i)); i.State == api.StateRunning || !strings.Contains(text, gone) {
				return fmt.Errorf("%s does not name %s", text, gone)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		seen, err := l.look(ctx, l.host.shell)
		if err != nil {
			return "", err
		}
		i, err := l.get(ctx, pass)
		if err == nil && seen.qemus[i.ID] != "" {
			err = fmt.Errorf("a process runs for it")
		}
		return text, err
	})
	_ = l.ok(ctx, "the card is missing, with an alarm, and the other machine runs", func(ctx context.Context) (string, error) {
		g, err := l.cardIs(ctx, gone, "missing", time.Minute)
		if err != nil {
			return "", err
		}
		page, err := l.cloud.Client.AlarmList(ctx, api.AlarmListOptions{})
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(page.Items, func(a api.Alarm) bool { return strings.Contains(a.Message, gone) })
		if i < 0 {
			return "", fmt.Errorf("no alarm names %s: %v", gone, page.Items)
		}
		_, err = l.await(ctx, vgpu, api.StateRunning, startTakes)
		return g.Reason + "; " + page.Items[i].Message, err
	})
	if err != nil {
		return err
	}
	return l.ok(ctx, "deleted, nothing of them is left", func(ctx context.Context) (string, error) {
		for _, name := range []string{pass, vgpu} {
			if err := l.remove(ctx, name); err != nil {
				return "", err
			}
		}
		if n, err := l.mediated(ctx); err != nil || n > 0 {
			return "", fmt.Errorf("%d mediated devices are left: %w", n, err)
		}
		now, err := l.drivers(ctx)
		if first := l.addresses[portFirst]; err == nil && now[first] != l.original[first] {
			err = fmt.Errorf("%s has driver %q, not %q", first, now[first], l.original[first])
		}
		return "", err
	})
}

// reboot boots the host as its operator would, and waits until its node is back.
func (l *lab) reboot(ctx context.Context) error {
	was, err := l.host.do(ctx, "cat /proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	if _, err := l.host.do(ctx, "systemctl --no-block reboot"); err != nil {
		return err
	}
	if err := until(ctx, 6*time.Minute, func() error {
		// A question that is lost with the boot is never answered.
		if err := l.host.up(ctx, l.host.shell); err != nil {
			return err
		}
		ask, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		now, err := l.host.do(ask, "cat /proc/sys/kernel/random/boot_id")
		if err == nil && now == was {
			err = fmt.Errorf("the host has not gone down")
		}
		return err
	}); err != nil {
		return err
	}
	if err := l.host.up(ctx, l.host.watch); err != nil {
		return err
	}
	return l.ready(ctx, 5*time.Minute)
}

// again waits until a machine runs on the host as it is booted now.
func (l *lab) again(ctx context.Context, name string) error {
	i, err := l.get(ctx, name)
	if err != nil {
		return err
	}
	return until(ctx, 5*time.Minute, func() error {
		now, err := l.cloud.Client.InstanceGet(ctx, target.Project, name)
		if err != nil {
			return err
		}
		seen, err := l.look(ctx, l.host.shell)
		if err != nil {
			return err
		}
		if now.State != api.StateRunning || seen.qemus[i.ID] == "" {
			return fmt.Errorf("%s is %s: %s", name, now.State, describe(now))
		}
		return nil
	})
}

// devices are what an instance holds, in order.
func devices(i *api.Instance) (out []string) {
	for _, c := range i.GPUs {
		out = append(out, fmt.Sprintf("%s %d to %d", c.GPUID, c.SlotStart, c.SlotEnd))
	}
	slices.Sort(out)
	return out
}
