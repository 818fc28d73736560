// Command admission asks for a thousand instances at once where a hundred fit,
// on nodes that only book, and measures the answers beside pgbench's single-row
// inserts on the same Postgres in the same run.
//
// It drives a cloud that `tenond dev` runs (--state) and leaves it as it was but
// for the rows of its own pool; use a cloud of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

func main() {
	state := flag.String("state", "var", "state folder of a cloud that `tenond dev` runs")
	creates := flag.Int("creates", 1000, "how many at once")
	gpus := flag.Int("gpus", 25, "cards in MIG mode; each takes four slices of double memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *state, *creates, *gpus); err != nil {
		fmt.Fprintln(os.Stderr, "admission:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, state string, creates, gpus int) error {
	cloud, err := target.Open(state)
	if err != nil {
		return err
	}
	tag := fmt.Sprintf("b%x", time.Now().UnixNano()&0xffffff)
	if err := book(ctx, cloud, tag, gpus); err != nil {
		return err
	}
	flavor, err := cloud.Client.FlavorCreate(ctx, api.FlavorCreate{Name: tag, GPUCount: 1, GPUModel: "a100-80gb", GPUMode: "mig", GPUProfile: "1g2", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		return fmt.Errorf("offer the slice: %w", err)
	}
	limits := api.QuotaUpdate{}
	for _, r := range []string{"gpu_milli", "instances", "memory_mib", "vcpu"} {
		limits.Items = append(limits.Items, api.QuotaLimit{Resource: r})
	}
	if _, err := cloud.Client.QuotaUpdate(ctx, target.Project, limits); err != nil {
		return fmt.Errorf("lift the limits: %w", err)
	}

	pg, err := pgbench(ctx, cloud, 64)
	if err != nil {
		return err
	}
	fmt.Printf("pgbench, single-row inserts, 64 clients: %.0f/s, p50 %s, p99 %s\n", pg.rate, pg.p50, pg.p99)

	began := time.Now()
	took := make([]time.Duration, creates)
	errs := make([]error, creates)
	var all sync.WaitGroup
	for n := range creates {
		all.Go(func() {
			start := time.Now()
			_, errs[n] = cloud.Client.InstanceCreate(ctx, target.Project, api.InstanceCreate{
				Name: fmt.Sprintf("%s-%d", tag, n), Image: "debian-12", Flavor: flavor.Name, Pool: tag})
			took[n] = time.Since(start)
		})
	}
	all.Wait()
	answered := time.Since(began)
	for n, err := range errs {
		if err != nil {
			return fmt.Errorf("create %d: %w", n, err)
		}
	}
	placed, waiting, unexplained, err := settled(ctx, cloud, tag, gpus*4, creates)
	if err != nil {
		return err
	}
	slices.Sort(took)
	rate := float64(creates) / answered.Seconds()
	fmt.Printf("%d concurrent creates: %.0f/s, p50 %s, p99 %s (all %d clients wait at once); all settled after %s\n", creates, rate,
		took[creates/2].Round(time.Millisecond), took[creates*99/100].Round(time.Millisecond), creates, time.Since(began).Round(time.Millisecond))
	fmt.Printf("ratio of throughputs, creates to inserts: %.3f\n", rate/pg.rate)
	fmt.Printf("placed %d, queued %d, of those without a reason %d\n", placed, waiting, unexplained)
	if placed != gpus*4 || waiting != creates-gpus*4 || unexplained != 0 {
		return fmt.Errorf("want %d placed and the rest queued with a reason", gpus*4)
	}
	return nil
}

// book adds a pool of nodes that nobody runs: what is placed there stays
// booked. Their last sign of life is in the future, so they are not late.
func book(ctx context.Context, cloud *target.Target, tag string, gpus int) error {
	_, err := cloud.SQL(ctx, fmt.Sprintf(`
		WITH p AS (INSERT INTO pool (id, name, simulated) VALUES (gen_random_uuid(), '%[1]s', true) RETURNING id),
		n AS (INSERT INTO node (id, name, pool_id, state, simulated, vcpu, memory_mib, last_seen_at)
			SELECT gen_random_uuid(), '%[1]s-' || k, p.id, 'ready', true, 64, 262144, now() + interval '1 day' FROM p, generate_series(1, (%[2]d + 7) / 8) k RETURNING id, name)
		INSERT INTO gpu (id, node_id, uuid, pci_address, index, model, geometry, mode, state, memory_mib, simulated)
		SELECT gen_random_uuid(), id, 'GPU-' || gen_random_uuid(), '0000:0' || (k %% 8) || ':00.0', k %% 8, 'a100-80gb', 'mig8', 'mig', 'ready', 81920, true
		FROM (SELECT id, row_number() OVER (ORDER BY name) - 1 AS at FROM n) nodes JOIN generate_series(0, %[2]d - 1) k ON k / 8 = at`, tag, gpus))
	if err != nil {
		return fmt.Errorf("add the nodes: %w", err)
	}
	return nil
}

// settled waits until every instance is placed or has its reason.
func settled(ctx context.Context, cloud *target.Target, tag string, fit, creates int) (placed, waiting, unexplained int, err error) {
	deadline := time.Now().Add(time.Minute)
	for {
		for want, query := range map[*int]string{
			&placed:      `SELECT count(*) FROM instance i JOIN pool p ON p.id = i.pool_id WHERE p.name = '%s' AND i.node_id IS NOT NULL`,
			&waiting:     `SELECT count(*) FROM instance i JOIN pool p ON p.id = i.pool_id WHERE p.name = '%s' AND i.state = 'queued'`,
			&unexplained: `SELECT count(*) FROM instance i JOIN pool p ON p.id = i.pool_id WHERE p.name = '%s' AND i.state = 'queued' AND (i.message = '' OR i.reasons = '[]')`,
		} {
			if *want, err = cloud.Number(ctx, fmt.Sprintf(query, tag)); err != nil {
				return
			}
		}
		if placed == fit && waiting == creates-fit && unexplained == 0 || time.Now().After(deadline) {
			return
		}
		select {
		case <-ctx.Done():
			return placed, waiting, unexplained, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
