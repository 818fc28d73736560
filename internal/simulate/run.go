package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/tenon-cloud/tenon/internal/packing"
)

// Policies that a replay knows, the first being Tenon's own.
var Policies = []string{"tenon", "fgd", "bestfit", "random"}

// Replay is an arrival-driven experiment: requests come one by one to an empty
// cluster, each is placed or dropped, and none leaves.
type Replay struct {
	Nodes   []packing.Node
	Pods    []packing.Request
	Arrived float64 // GPU demand that comes in all, beside the cluster's GPUs
	Seeds   []int64
	Policy  string
	Copies  int // of the cluster and of the requests; 0 is 1
	// Learn: Tenon's policy doesn't know what will come, but counts what came. The
	// others that look at the mix know it always.
	Learn   bool
	Weights packing.Weights // of tenon; the zero value is the default
	// Progress is told after each seed; may be nil.
	Progress func(done, all int)
}

// ReplayReport is what came of it: means over the seeds.
type ReplayReport struct {
	Policy     string             `json:"policy"`
	Nodes      int                `json:"nodes"`
	GPUs       int                `json:"gpus"`
	Arrived    float64            `json:"arrived"`
	Allocation map[string]float64 `json:"allocation_percent"`
	PerSeed    []SeedReport       `json:"per_seed"`
	Speed
}

// SeedReport is one seed of a replay.
type SeedReport struct {
	Seed       int64              `json:"seed"`
	Requests   int                `json:"requests"`
	Placed     int                `json:"placed"`
	Allocation map[string]float64 `json:"allocation_percent"`
}

// marks are the percents of demand at which the allocation is noted.
var marks = []int{80, 85, 90, 95, 100, 105, 110, 120, 130}

// Run plays every seed.
func (x *Replay) Run(ctx context.Context) (*ReplayReport, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	if x.Copies > 1 {
		big := *x
		big.Nodes, big.Pods, big.Copies = slices.Repeat(x.Nodes, x.Copies), slices.Repeat(x.Pods, x.Copies), 1
		return big.Run(ctx)
	}
	out := &ReplayReport{Policy: x.Policy, Nodes: len(x.Nodes), Arrived: x.Arrived, Allocation: map[string]float64{}}
	for i := range x.Nodes {
		out.GPUs += int(x.Nodes[i].Cards)
	}
	var watch stopwatch
	for i, seed := range x.Seeds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := x.seed(seed, int64(out.GPUs)*packing.Milli, &watch)
		out.PerSeed = append(out.PerSeed, s)
		for k, v := range s.Allocation {
			out.Allocation[k] += v / float64(len(x.Seeds))
		}
		if x.Progress != nil {
			x.Progress(i+1, len(x.Seeds))
		}
	}
	round(out.Allocation)
	for _, s := range out.PerSeed {
		round(s.Allocation)
	}
	out.Speed = watch.speed()
	return out, nil
}

func (x *Replay) check() error {
	cards := 0
	for i := range x.Nodes {
		cards += int(x.Nodes[i].Cards)
	}
	demand := int64(0)
	for i := range x.Pods {
		demand += x.Pods[i].Demand()
	}
	switch {
	case !slices.Contains(Policies, x.Policy):
		return fmt.Errorf("policy %q is not one of %v", x.Policy, Policies)
	case cards == 0:
		return fmt.Errorf("the nodes have no GPUs")
	case demand == 0:
		return fmt.Errorf("the pods ask for no GPUs")
	case !(x.Arrived > 0 && x.Arrived <= 10):
		return fmt.Errorf("arrived demand is above 0 and at most 10 times the cluster's GPUs, not %g", x.Arrived)
	case x.Copies < 0 || x.Copies > 100:
		return fmt.Errorf("there are 1 to 100 copies, not %d", x.Copies)
	case len(x.Seeds) == 0:
		return fmt.Errorf("no seeds")
	}
	return nil
}

func (x *Replay) placer(nodes []packing.Node, rng *rand.Rand) placer {
	switch x.Policy {
	case "random":
		return &random{nodes: nodes, rng: rng}
	case "fgd":
		return engine{packing.NewEngine(nodes, newFGD(x.Pods))}
	case "bestfit":
		return engine{packing.NewEngine(nodes, newBestFit(nodes))}
	}
	if x.Learn {
		return newLearner(nodes, x.Weights)
	}
	return newBoard(nodes, packing.MixOf(x.Pods), x.Weights)
}

// seed plays one seed. The nodes' order, which breaks ties, is the seed's too.
func (x *Replay) seed(seed, capacity int64, watch *stopwatch) SeedReport {
	rng := rand.New(rand.NewSource(seed))
	work := arrivals(x.Pods, capacity, x.Arrived, rng)
	nodes := make([]packing.Node, len(x.Nodes))
	for i, k := range rng.Perm(len(nodes)) {
		nodes[k] = x.Nodes[i]
	}
	e := x.placer(nodes, rng)
	classes := make([]int, len(work))
	for i := range work {
		classes[i] = e.Class(work[i])
	}
	out := SeedReport{Seed: seed, Requests: len(work), Allocation: map[string]float64{}}
	var came, taken int64
	next := 0
	note := func(until int64) {
		for ; next < len(marks) && until >= int64(marks[next])*capacity; next++ {
			out.Allocation[mark(marks[next])] = percent(taken, capacity)
		}
	}
	watch.start()
	for i := range work {
		watch.lap()
		placed := e.Place(classes[i])
		watch.decided()
		d := work[i].Demand()
		came += d
		if placed {
			taken += d
			out.Placed++
		}
		note(came * 100)
	}
	watch.stop(out.Placed)
	// The last request that comes is the one that doesn't go above the demand.
	note(int64(math.Round(x.Arrived * 100 * float64(capacity))))
	return out
}

func mark(percent int) string { return "at_" + strconv.Itoa(percent) }

func percent(part, of int64) float64 { return 100 * float64(part) / float64(of) }

func round(values map[string]float64) {
	for k, v := range values {
		values[k] = math.Round(v*1e4) / 1e4
	}
}

// Speed is how fast decisions were, beside a fixed loop of the same run, which
// tells how fast the machine was.
type Speed struct {
	DecisionsPerSecond  float64 `json:"decisions_per_second"`
	BestPerSecond       float64 `json:"decisions_per_second_best_seed"`
	PerCPUSecond        float64 `json:"decisions_per_cpu_second,omitempty"` // what a core of its own would do
	PlacementsPerSecond float64 `json:"placements_per_second"`
	P50                 float64 `json:"decision_p50_us"`
	P99                 float64 `json:"decision_p99_us"`
	Calibration         float64 `json:"calibration_loops_per_second"`
}

// stopwatch times decisions, and nothing between them.
type stopwatch struct {
	lapped time.Time
	each   []float64 // microseconds
	total  time.Duration
	loops  float64
	spent  time.Duration
	placed int
	best   float64 // decisions per second of the fastest seed
	since  int     // decisions when the seed began
	before time.Duration
	cpu    time.Duration // of the seeds so far
	cpuAt  time.Duration // when the seed began
}

// start runs the calibration loop for a moment.
func (w *stopwatch) start() {
	at := time.Now()
	w.loops += float64(calibrate())
	w.spent += time.Since(at)
	w.since, w.before, w.cpuAt = len(w.each), w.total, cpuTime()
}

// stop ends a seed.
func (w *stopwatch) stop(placed int) {
	w.placed += placed
	w.cpu += cpuTime() - w.cpuAt
	if took := (w.total - w.before).Seconds(); took > 0 {
		w.best = max(w.best, float64(len(w.each)-w.since)/took)
	}
}

func (w *stopwatch) lap() { w.lapped = time.Now() }

func (w *stopwatch) decided() {
	took := time.Since(w.lapped)
	w.total += took
	w.each = append(w.each, float64(took.Nanoseconds())/1e3)
}

func (w *stopwatch) speed() Speed {
	if len(w.each) == 0 {
		return Speed{}
	}
	slices.Sort(w.each)
	seconds := max(w.total.Seconds(), 1e-9)
	perCPU := 0.0
	if w.cpu > 0 {
		perCPU = math.Round(float64(len(w.each)) / w.cpu.Seconds())
	}
	return Speed{
		PerCPUSecond:        perCPU,
		DecisionsPerSecond:  math.Round(float64(len(w.each)) / seconds),
		BestPerSecond:       math.Round(w.best),
		PlacementsPerSecond: math.Round(float64(w.placed) / seconds),
		P50:                 math.Round(w.each[len(w.each)/2]*10) / 10,
		P99:                 math.Round(w.each[len(w.each)*99/100]*10) / 10,
		Calibration:         math.Round(w.loops / max(w.spent.Seconds(), 1e-9)),
	}
}

// calibrate mixes a number a thousand times, a thousand loops in all, about a
// millisecond's work.
func calibrate() int {
	const loops = 1000
	x := uint64(1)
	for range loops {
		for range 1000 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
	}
	runtime.KeepAlive(x) // or the compiler would leave the work out
	return loops
}
