// Command lab boots a machine with an IOMMU, which QEMU emulates, makes it a node of
// a running cloud as an operator would, and drives real VFIO passthrough and real
// mediated devices on it through the public API. What it looks at besides, inside
// the guests and on the host, it reads from the devices and the kernel, never
// through Tenon's code.
//
// It prints each check as it is made; the last line counts them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

func main() {
	state := flag.String("state", "var", "state folder of the cloud that the node joins")
	images := flag.String("images", "bin/lab", "what deploy/lab/host.sh and guest.sh made")
	work := flag.String("work", "bin/lab/run", "folder for disks and logs of this run")
	programs := flag.String("programs", "bin", "folder of tenon-agent and tenon")
	units := flag.String("units", "deploy/systemd", "folder of the node's units")
	kills := flag.Int("kills", 20, "how often the agent is killed")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "repeats the same choices")
	leave := flag.Bool("leave", false, "for work on the lab itself: leave the host running at the end")
	join := flag.Bool("join", false, "take up the host that an earlier run left, with the node as it is")
	only := flag.String("only", "", "make only these parts, by comma; empty: all")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	l := &lab{programs: *programs, units: *units, kills: *kills, seed: *seed, began: time.Now()}
	if *only != "" {
		l.only = strings.Split(*only, ",")
	}
	code := l.run(ctx, *state, *images, *work, *leave, *join)
	stop()
	os.Exit(code)
}

// run gives the exit status.
func (l *lab) run(ctx context.Context, state, images, work string, leave, join bool) int {
	var err error
	if l.cloud, err = target.Open(state); err == nil {
		if l.joined = join; join {
			l.host, err = joinHost(ctx, images, work)
		} else if err = os.RemoveAll(work); err == nil {
			if l.host, err = newHost(images, work); err == nil {
				l.host.leave = leave
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	l.checks(ctx)
	bad := l.failed > 0 || ctx.Err() != nil
	if bad {
		l.collect(work)
	}
	if err := l.host.close(bad); err != nil {
		fmt.Fprintln(os.Stderr, "lab: clean up:", err)
	}
	if bad {
		if at, err := filepath.Abs(work); err == nil {
			fmt.Printf("logs of the host, its console and its agent are in %s\n", at)
		}
	}
	if ctx.Err() != nil {
		fmt.Println("interrupted")
	}
	if l.faults > 0 {
		fmt.Printf("%d faults of the emulator, after which a part was made again\n", l.faults)
	}
	fmt.Printf("%d passed, %d failed\n", l.passed, l.failed)
	if bad || l.passed == 0 {
		return 1
	}
	return 0
}
