// Command faults breaks what a running cloud is made of, again and again, while
// instances of every kind are created, stopped, started and deleted, and then
// compares what Postgres says with what libvirt, containerd and the simulated
// nodes run. It reads each by its own tools or files, never through Tenon's code,
// so that it shares no mistake with it.
//
// It drives a cloud that `tenond dev` runs: --state names its folder. Faults come
// in rounds; a round ends at rest and with the same questions: is each instance
// where it was last asked to be, or says why not; is any slice held twice, any
// instance lost, any guest an orphan, any second charged twice or not at all, any
// card offered while a guest holds it. While faults go on, a watcher looks for two
// running copies of one instance.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

func main() {
	state := flag.String("state", "var", "state folder of the cloud to attack")
	faults := flag.Int("faults", 500, "how many faults in all")
	each := flag.Int("each", 25, "faults in a round")
	kinds := flag.String("kinds", "", "kinds of faults, by comma; empty: all that this host allows of "+strings.Join(faultNames(), ","))
	workers := flag.Int("workers", 8, "clients at work")
	vms := flag.Int("vms", 2, "VMs at a time; 0: none")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "repeats the same choices")
	settle := flag.Duration("settle", 6*time.Minute, "how long a round may take to come to rest")
	long := flag.Int("long", 1, "network cuts in all that last until the node is fenced")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cloud, err := target.Open(*state)
	if err != nil {
		fail("%v", err)
	}
	b := &breaker{cloud: cloud, long: *long}
	defer b.mend()
	allowed := b.allowed(ctx)
	if *kinds != "" {
		for _, k := range strings.Split(*kinds, ",") {
			if !slices.Contains(allowed, k) {
				fail("fault %q is none of %s, or this host does not allow it", k, strings.Join(allowed, ", "))
			}
		}
		allowed = strings.Split(*kinds, ",")
	}
	fmt.Printf("cloud %s, seed %d: %d faults of %s, during creates, stops, starts and deletes\n", cloud.ID, *seed, *faults, strings.Join(allowed, ", "))
	for _, name := range faultNames() {
		if !slices.Contains(allowed, name) {
			fmt.Printf("not tried: %s (%s)\n", name, b.refused[name])
		}
	}
	random := rand.New(rand.NewPCG(*seed, 1))
	var sum tally
	rounds := 0
	for done := 0; done < *faults; done += *each {
		rounds++
		r := &round{cloud: checked{cloud}, breaker: b, number: rounds, random: rand.New(rand.NewPCG(random.Uint64(), 2)),
			faults: min(*each, *faults-done), kinds: allowed, workers: *workers, vms: *vms, settle: *settle}
		result, err := r.run(ctx)
		sum.add(result)
		if err != nil {
			b.mend()
			fail("round %d: %v\n%s", rounds, err, strings.Join(result.findings, "\n"))
		}
		fmt.Printf("round %2d: %s; %s\n", rounds, result.story(), result.verdict())
	}
	fmt.Printf("%d faults (%s), %d instances created, %d intents\n", sum.total(), sum.byKind(), sum.created, sum.intents)
	fmt.Printf("%d double owners, %d lost, %d orphans, %d overlapping or missing segments, %d GPUs free while held, %d moments with two copies, %d without a reason, %d left behind\n",
		sum.doubled, sum.lost, sum.orphans, sum.segments, sum.free, sum.copies, sum.unexplained, sum.leftovers)
	if sum.bad() {
		fmt.Println("0 passed, 1 failed")
		b.mend()
		os.Exit(1)
	}
	fmt.Printf("%d passed, 0 failed\n", rounds)
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "faults: "+format+"\n", args...)
	os.Exit(1)
}
