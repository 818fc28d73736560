// Command rounds kills what a running cloud is made of, again and again, while
// instances are created and deleted, and then compares what Postgres says with
// what containerd runs. It reads both by their own tools, never through Tenon's
// code, so that it shares no mistake with it.
//
// It drives a cloud that `tenond dev` runs: --state names its folder. Every round
// ends with the same questions: is each instance running, queued, or failed with
// a reason; is any slice held twice, any instance lost, any guest an orphan, any
// second charged twice.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

func main() {
	state := flag.String("state", "var", "state folder of the cloud to attack")
	rounds := flag.Int("rounds", 20, "how many rounds")
	ops := flag.Int("ops", 100, "creates in a round; each is deleted again")
	workers := flag.Int("workers", 8, "how many at once")
	kills := flag.Int("kills", 3, "kills in a round")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "repeats the same choices")
	victims := flag.String("victims", "serve,agent,containerd,postgres", "which children may be killed")
	settle := flag.Duration("settle", 3*time.Minute, "how long a round may take to come to rest")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cloud, err := target.Open(*state)
	if err != nil {
		fail("%v", err)
	}
	fmt.Printf("cloud %s, seed %d: %d rounds of %d creates and deletes, %d kills each of %s\n", cloud.ID, *seed, *rounds, *ops, *kills, *victims)
	random := rand.New(rand.NewPCG(*seed, 1))
	var sum tally
	for n := range *rounds {
		began := time.Now()
		round := &round{cloud: checked{cloud}, number: n + 1, random: rand.New(rand.NewPCG(random.Uint64(), 2)), ops: *ops, workers: *workers,
			kills: *kills, victims: strings.Split(*victims, ","), settle: *settle}
		result, err := round.run(ctx)
		if err != nil {
			fail("round %d: %v", n+1, err)
		}
		sum.add(result)
		fmt.Printf("round %2d: killed %-40s %3d created: %d came to run, %d waited, %d failed with a reason; %s; %.0f s\n", n+1,
			strings.Join(result.killed, " "), result.created, result.running, result.queued, result.failed, result.verdict(), time.Since(began).Seconds())
	}
	fmt.Printf("%d rounds, %d kills, %d creates: %d doubled, %d lost, %d orphans, %d overlapping segments, %d without a reason, %d left behind\n",
		*rounds, len(sum.killed), sum.created, sum.doubled, sum.lost, sum.orphans, sum.overlaps, sum.unexplained, sum.leftovers)
	if sum.bad() {
		fmt.Printf("%d passed, 1 failed\n", 0)
		os.Exit(1)
	}
	fmt.Printf("%d passed, 0 failed\n", *rounds)
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "rounds: "+format+"\n", args...)
	os.Exit(1)
}
