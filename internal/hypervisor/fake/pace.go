package fake

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Pace gives guests the times of real ones: the same again for the same seed.
type Pace struct{ Seed string }

// between draws from a range by the seed and some words.
func (p *Pace) between(low, high time.Duration, words ...any) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, p.Seed, words)
	x := h.Sum64()
	x ^= x >> 33 // the last bytes written barely move the high bits
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return low + time.Duration(float64(high-low)*float64(x>>11)/(1<<53))
}

func (p *Pace) start(spec hypervisor.Spec) time.Duration {
	if spec.Kind == "vm" {
		return p.between(4*time.Second, 20*time.Second, "start", spec.ID, spec.Epoch)
	}
	return p.between(200*time.Millisecond, 2*time.Second, "start", spec.ID, spec.Epoch)
}

func (p *Pace) stop(id string) time.Duration {
	return p.between(100*time.Millisecond, 3*time.Second, "stop", id)
}

// pullSteps is how often a pull says how far it is.
const pullSteps = 8

// pull takes the time of a download the first time that an image comes to the
// node. It goes on by itself: one that is broken off is further when it is
// asked for again.
func (e *Engine) pull(ctx context.Context, spec hypervisor.Spec, progress hypervisor.Progress) error {
	image := spec.Image.Ref + "@" + spec.Image.Digest
	takes := e.opts.Pace.between(time.Second, 8*time.Second, "pull", image)
	e.mu.Lock()
	here, known := e.images[image]
	if !known {
		here = time.Now().Add(takes)
		e.images[image] = here
		if err := e.save(); err != nil {
			e.mu.Unlock()
			return err
		}
	}
	e.mu.Unlock()
	for left := time.Until(here); left > 0; left = time.Until(here) {
		done := int(pullSteps * (takes - left) / takes)
		progress("image", "pulling a simulated image", 100*max(done, 0)/pullSteps)
		if err := wait(ctx, min(left, takes/pullSteps)); err != nil {
			return err
		}
	}
	return nil
}

// plan is how a guest ends by itself.
type plan struct {
	After time.Duration `json:"after"`
	Code  int           `json:"code"`
}

// planOf reads the few commands that a simulated guest understands:
//
//	tenon-sim exit CODE [after DURATION]     tenon-sim fail
//	sleep SECONDS     true     false     sh -c "sleep SECONDS; exit CODE"
//
// Any other runs until it is stopped.
func planOf(command []string) (*plan, error) {
	switch {
	case len(command) == 3 && (command[0] == "sh" || command[0] == "/bin/sh" || command[0] == "bash") && command[1] == "-c":
		p := plan{}
		for part := range strings.SplitSeq(command[2], ";") {
			word, value, _ := strings.Cut(strings.TrimSpace(part), " ")
			value = strings.TrimSpace(value)
			after, slept := seconds(value)
			code, err := strconv.Atoi(value)
			switch {
			case word == "sleep" && slept:
				p.After += after
			case word == "exit" && err == nil:
				p.Code = code & 0xff
				return &p, nil
			default:
				return nil, nil //nolint:nilnil // it runs until it is stopped
			}
		}
		return &p, nil
	case len(command) == 2 && command[0] == "sleep":
		if after, ok := seconds(command[1]); ok {
			return &plan{After: after}, nil
		}
	case len(command) == 1 && command[0] == "true":
		return &plan{}, nil
	case len(command) == 1 && command[0] == "false":
		return &plan{Code: 1}, nil
	case len(command) == 2 && command[0] == "tenon-sim" && command[1] == "fail":
		return nil, &hypervisor.Failure{Reason: nodewire.ReasonStart, Final: true, Message: "this simulated instance was told to fail"}
	case len(command) >= 3 && command[0] == "tenon-sim" && command[1] == "exit":
		code, err := strconv.Atoi(command[2])
		p := plan{Code: code & 0xff}
		if err == nil && len(command) == 5 && command[3] == "after" {
			p.After, err = time.ParseDuration(command[4])
		}
		if err == nil && (len(command) == 3 || len(command) == 5) {
			return &p, nil
		}
		return nil, &hypervisor.Failure{Reason: nodewire.ReasonStart, Final: true, Message: "write it as: tenon-sim exit 3 after 30s"}
	}
	return nil, nil //nolint:nilnil // it runs until it is stopped
}

// seconds reads what sleep takes; what lasts longer than a year never ends.
func seconds(s string) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n >= 0 && n <= 366*24*3600) {
		return 0, false
	}
	return time.Duration(n * float64(time.Second)), true
}

// arm lets a guest end when its plan says so; mu is held.
func (e *Engine) arm(g *guest) {
	if g.plan == nil || g.State != hypervisor.Running {
		return
	}
	id, started, code := g.ID, g.StartedAt, g.plan.Code
	g.timer = time.AfterFunc(time.Until(started.Add(g.plan.After)), func() {
		if now, ok := e.get(id); ok && now.StartedAt.Equal(started) {
			e.exit(id, code, false)
		}
	})
}

func (g *guest) disarm() {
	if g.timer != nil {
		g.timer.Stop()
	}
}
