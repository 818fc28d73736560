package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// quarantine uses a card that the kernel can't reset, and recovers it.
func (l *lab) quarantine(ctx context.Context) error {
	const name = "lab-noway"
	card := l.addresses[portNoWay]
	err := l.ok(ctx, "a machine gets a card with its companion", func(ctx context.Context) (string, error) {
		if err := l.create(ctx, name, flavorNoWay); err != nil {
			return "", err
		}
		if _, err := l.await(ctx, name, api.StateRunning, startTakes); err != nil {
			return "", err
		}
		if err := l.bound(ctx, portNoWay); err != nil {
			return "", err
		}
		lines, err := l.said(ctx, name, bootTakes)
		if err != nil {
			return "", err
		}
		sees := strings.Join(starting(lines, "pci"), ", ")
		if tests := starting(lines, "testdev"); len(tests) != 1 || !strings.Contains(tests[0], ":00.0 test=mmio") || !strings.Contains(sees, ":00.1 8086:2668") {
			return "", fmt.Errorf("inside: %q; it sees %s", tests, sees)
		}
		return "inside: " + strings.Join(starting(lines, "testdev"), " ") + ", and its companion 8086:2668", nil
	})
	if err != nil {
		return err
	}
	err = l.ok(ctx, "after its first tenant it is quarantined, and its companion is back with its driver", func(ctx context.Context) (string, error) {
		if err := l.remove(ctx, name); err != nil {
			return "", err
		}
		g, err := l.cardIs(ctx, card, "quarantined", time.Minute)
		if err != nil {
			return "", err
		}
		if !strings.Contains(g.Reason, "no way to reset it") {
			return "", fmt.Errorf("the reason is: %s", g.Reason)
		}
		return g.Reason, l.bound(ctx)
	})
	if err != nil {
		return err
	}
	_ = l.ok(ctx, "quarantined, it is not offered", func(ctx context.Context) (string, error) {
		no := false
		_, err := l.cloud.Client.InstanceCreate(ctx, target.Project, api.InstanceCreate{Name: "lab-none", Image: imageName, Flavor: flavorNoWay, Wait: &no})
		if p, ok := err.(*api.Problem); !ok || p.Status != 507 { //nolint:errorlint // the client gives it as it is
			return "", fmt.Errorf("a create that won't wait is answered %v", err)
		}
		return err.Error(), nil
	})
	_ = l.ok(ctx, "an alarm names it", func(ctx context.Context) (string, error) {
		page, err := l.cloud.Client.AlarmList(ctx, api.AlarmListOptions{})
		if err != nil {
			return "", err
		}
		for _, a := range page.Items {
			if strings.Contains(a.Message, card) && strings.Contains(a.Message, "quarantine") {
				return a.Message, nil
			}
		}
		return "", fmt.Errorf("no alarm tells of it: %v", page.Items)
	})
	return l.ok(ctx, "an operator's recover has it checked and offered again", func(ctx context.Context) (string, error) {
		all, err := l.cards(ctx)
		if err != nil {
			return "", err
		}
		if _, err := l.cloud.Client.GPURecover(ctx, all[card].ID); err != nil {
			return "", err
		}
		if _, err := l.cardIs(ctx, card, "ready", time.Minute); err != nil {
			return "", err
		}
		return "", l.bound(ctx)
	})
}
