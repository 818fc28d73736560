package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// Names of what the lab offers.
const (
	imageName     = "lab-guest"
	flavorOne     = "lab-edu"
	flavorTwo     = "lab-edu-2"
	flavorTwoWide = "lab-edu-2-wide"
	flavorNoWay   = "lab-testdev"
	flavorVGPU    = "lab-mtty"
)

// offer puts the guest's disk into the cloud's registry, as anybody would, and
// makes the flavors.
func (l *lab) offer(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(l.programs, "tenon"), "image", "upload", imageName, filepath.Join(l.host.images, "guest.qcow2"), "--offered")
	cmd.Env = append(os.Environ(), "TENON_URL="+l.cloud.Client.BaseURL, "TENON_TOKEN="+l.cloud.Client.Token)
	if out, err := cmd.CombinedOutput(); err != nil && !l.joined {
		return fmt.Errorf("upload the guest's image: %w: %s", err, strings.TrimSpace(string(out)))
	}
	for _, f := range []api.FlavorCreate{
		{Name: flavorOne, GPUCount: 1, GPUModel: eduModel, GPUMode: "whole", GPUProfile: "whole", VCPU: 1},
		{Name: flavorTwo, GPUCount: 2, GPUModel: eduModel, GPUMode: "whole", GPUProfile: "whole", VCPU: 1},
		{Name: flavorTwoWide, GPUCount: 2, GPUModel: eduModel, GPUMode: "whole", GPUProfile: "whole", VCPU: 2},
		{Name: flavorNoWay, GPUCount: 1, GPUModel: testdevModel, GPUMode: "whole", GPUProfile: "whole", VCPU: 1},
	} {
		if err := l.flavor(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) flavor(ctx context.Context, f api.FlavorCreate) error {
	f.MemoryMiB, f.DiskMiB = 1024, 4096
	if _, err := l.cloud.Client.FlavorCreate(ctx, f); err != nil && !l.joined {
		return fmt.Errorf("make flavor %s: %w", f.Name, err)
	}
	return nil
}

func (l *lab) create(ctx context.Context, name, flavor string) error {
	_, err := l.cloud.Client.InstanceCreate(ctx, target.Project, api.InstanceCreate{Name: name, Image: imageName, Flavor: flavor})
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

func (l *lab) get(ctx context.Context, name string) (*api.Instance, error) {
	return l.cloud.Client.InstanceGet(ctx, target.Project, name)
}

// await waits for a state; another one at which an instance stays is an error.
func (l *lab) await(ctx context.Context, name, state string, within time.Duration) (out *api.Instance, err error) {
	var last error
	err = until(ctx, within, func() error {
		if out, last = l.get(ctx, name); last != nil {
			return last
		}
		if out.State == state || out.State == api.StateFailed {
			return nil
		}
		return fmt.Errorf("%s is %s: %s", name, out.State, describe(out))
	})
	if err == nil && out.State != state {
		err = fmt.Errorf("%s is %s: %s", name, out.State, describe(out))
	}
	return out, err
}

func describe(i *api.Instance) string {
	text := []string{i.Reason, i.Message}
	for _, r := range i.Reasons {
		text = append(text, fmt.Sprintf("%d × %s %s", r.Count, r.Reason, r.Message))
	}
	return strings.TrimSpace(strings.Join(text, " "))
}

// remove deletes an instance and waits until it is gone.
func (l *lab) remove(ctx context.Context, name string) error {
	i, err := l.get(ctx, name)
	if err != nil {
		return err
	}
	if _, err := l.cloud.Client.InstanceDelete(ctx, target.Project, name); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return l.gone(ctx, i.ID, startTakes)
}

// sweep deletes what an earlier run left on the host that it left.
func (l *lab) sweep(ctx context.Context) error {
	all, err := l.cloud.Client.InstanceListAll(ctx, target.Project, api.InstanceListOptions{})
	for _, i := range all {
		if err == nil && strings.HasPrefix(i.Name, "lab-") {
			err = l.remove(ctx, i.ID)
		}
	}
	return err
}

func (l *lab) gone(ctx context.Context, id string, within time.Duration) error {
	return until(ctx, within, func() error {
		i, err := l.get(ctx, id)
		switch {
		case errors.Is(err, &api.Problem{Code: "not_found"}):
			return nil
		case err != nil:
			return err
		case i.State == api.StateDeleted:
			return nil
		}
		return fmt.Errorf("%s is %s: %s", i.Name, i.State, describe(i))
	})
}

// said is what the system inside wrote on its serial port since it last booted,
// line by line, once it has said all.
func (l *lab) said(ctx context.Context, name string, within time.Duration) (lines []string, err error) {
	return l.saidAnew(ctx, name, "", within)
}

// saidAnew is the same of another boot than one that is known.
func (l *lab) saidAnew(ctx context.Context, name, known string, within time.Duration) (lines []string, err error) {
	look := time.Now().Add(silentAfter)
	err = until(ctx, within, func() error {
		if time.Now().After(look) {
			look = time.Now().Add(20 * time.Second)
			if err := l.silent(ctx, name); errors.Is(err, errSilent) {
				l.host.blame(err)
				return err
			}
		}
		r, err := l.cloud.Client.Logs(ctx, target.Project, name, api.LogOptions{})
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("read the log of %s: %w", name, err)
		}
		lines = nil
		done := false
		for line := range strings.Lines(string(raw)) {
			_, text, ok := strings.Cut(strings.TrimSpace(line), "LAB ")
			switch {
			case !ok:
				continue
			case done: // another boot
				lines, done = nil, false
			}
			if strings.HasPrefix(text, "up ") {
				done = true
			}
			lines = append(lines, text)
		}
		if !done {
			return fmt.Errorf("the system in %s has not said all: %s", name, strings.TrimSpace(string(raw[max(0, len(raw)-300):])))
		}
		if known != "" && strings.Join(starting(lines, "boot"), " ") == known {
			return fmt.Errorf("%s has not booted again", name)
		}
		return nil
	})
	return lines, err
}

// starting gives those lines that begin with a word.
func starting(lines []string, word string) (out []string) {
	for _, l := range lines {
		if strings.HasPrefix(l, word+" ") {
			out = append(out, strings.TrimPrefix(l, word+" "))
		}
	}
	return out
}

// cards gives the node's cards by address.
func (l *lab) cards(ctx context.Context) (map[string]api.GPU, error) {
	n, err := l.node(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]api.GPU{}
	for _, g := range n.GPUs {
		out[g.PCIAddress] = g
	}
	return out, nil
}

// cardIs waits until a card is in a state.
func (l *lab) cardIs(ctx context.Context, address, state string, within time.Duration) (g api.GPU, err error) {
	err = until(ctx, within, func() error {
		all, err := l.cards(ctx)
		if err != nil {
			return err
		}
		var there bool
		if g, there = all[address]; !there {
			return fmt.Errorf("card %s is not listed", address)
		}
		if g.State != state {
			return fmt.Errorf("card %s is %s (%s), not %s", address, g.State, g.Reason, state)
		}
		return nil
	})
	return g, err
}
