package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

func percent(v float64) *float64 { return &v }

// What is idle (case C27): an open tab is no activity, and what is not known is
// not idleness.
func TestWhatIsIdle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a    *nodewire.Activity
		idle bool
	}{
		"nothing is known":                    {nil, false},
		"kernel idle, GPU at 0":               {&nodewire.Activity{Kernels: 1, QuietSeconds: 9999, HasGPU: true, GPUPercent: percent(0)}, true},
		"kernel busy, GPU at 0":               {&nodewire.Activity{Kernels: 1, BusyKernels: 1, HasGPU: true, GPUPercent: percent(0)}, false},
		"kernel idle, GPU not known":          {&nodewire.Activity{Kernels: 1, QuietSeconds: 9999, HasGPU: true}, false},
		"kernel idle, GPU at work":            {&nodewire.Activity{Kernels: 1, QuietSeconds: 9999, HasGPU: true, GPUPercent: percent(5)}, false},
		"kernel idle, no GPU":                 {&nodewire.Activity{Kernels: 1, QuietSeconds: 9999}, true},
		"no kernel at all":                    {&nodewire.Activity{QuietSeconds: 9999}, true},
		"kernel idle, somebody at a terminal": {&nodewire.Activity{Kernels: 1, QuietSeconds: 9999, Sessions: 1}, false},
	} {
		if got := idle(c.a); got != c.idle {
			t.Errorf("%s: idle is %v", name, got)
		}
	}
}

// day plays a notebook's day in steps of a second, and notes what was done when.
type day struct {
	policy idlePolicy
	state  idleState
	began  time.Time
	now    time.Time
	did    map[idleAct][]time.Duration
}

func newDay(p idlePolicy) *day {
	began := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	return &day{policy: p, began: began, now: began, did: map[idleAct][]time.Duration{}}
}

func (d *day) live(span time.Duration, activity func(quiet time.Duration) *nodewire.Activity) {
	start := d.now
	for d.now.Sub(start) < span && len(d.did[idleStop]) == 0 {
		d.now = d.now.Add(time.Second)
		act, is, _ := idleVerdict(activity(d.now.Sub(start)), 2*time.Second, d.policy, d.state, d.now)
		if act != idleNothing {
			d.state = is
			d.did[act] = append(d.did[act], d.now.Sub(d.began))
		}
	}
}

func quiet(q time.Duration) *nodewire.Activity {
	return &nodewire.Activity{Kernels: 1, QuietSeconds: q.Seconds(), HasGPU: true, GPUPercent: percent(0)}
}

func busy(time.Duration) *nodewire.Activity {
	return &nodewire.Activity{Kernels: 1, BusyKernels: 1, HasGPU: true, GPUPercent: percent(0)}
}

func unknown(time.Duration) *nodewire.Activity { return nil }

func near(t *testing.T, what string, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: at %v, want %v", what, got, want)
	}
	for i := range want {
		if d := got[i] - want[i]; d < -5*time.Second || d > 5*time.Second {
			t.Errorf("%s: at %v, want %v", what, got, want)
		}
	}
}

func TestIdleIsWarnedAndThenStopped(t *testing.T) {
	t.Parallel()
	d := newDay(idlePolicy{Stop: 2 * time.Hour, Warn: 10 * time.Minute})
	d.live(time.Hour, busy)
	d.live(5*time.Hour, quiet)
	near(t, "warned", d.did[idleWarn], 2*time.Hour+50*time.Minute)
	near(t, "stopped", d.did[idleStop], 3*time.Hour)
}

func TestNoStopWhileSomethingGoesOnOrNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, activity := range map[string]func(time.Duration) *nodewire.Activity{"busy, GPU at 0": busy, "metrics missing": unknown} {
		d := newDay(idlePolicy{Stop: time.Hour, Warn: 10 * time.Minute})
		d.live(12*time.Hour, activity)
		if len(d.did[idleWarn])+len(d.did[idleStop]) > 0 {
			t.Errorf("%s: %v", name, d.did)
		}
	}
	d := newDay(idlePolicy{})
	d.live(48*time.Hour, quiet)
	if len(d.did[idleWarn])+len(d.did[idleStop]) > 0 {
		t.Errorf("without a policy: %v", d.did)
	}
	old := idleState{Since: &d.began}
	if act, _, _ := idleVerdict(quiet(time.Hour), 2*time.Minute, idlePolicy{Stop: time.Minute}, old, d.began.Add(time.Hour)); act != idleClear {
		t.Errorf("a word that is two minutes old: %s", act)
	}
}

// Activity after the warning clears it; the count begins anew.
func TestActivityAfterTheWarning(t *testing.T) {
	t.Parallel()
	d := newDay(idlePolicy{Stop: time.Hour, Warn: 10 * time.Minute})
	d.live(55*time.Minute, quiet)
	d.live(time.Minute, busy)
	d.live(3*time.Hour, quiet)
	near(t, "warned", d.did[idleWarn], 50*time.Minute, 56*time.Minute+50*time.Minute)
	near(t, "cleared", d.did[idleClear], 55*time.Minute)
	near(t, "stopped", d.did[idleStop], 56*time.Minute+time.Hour)
}

// A cell that ran between two looks counts, although no look saw it run.
func TestAShortRunBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	d := newDay(idlePolicy{Stop: time.Hour, Warn: 10 * time.Minute})
	d.live(40*time.Minute, quiet)
	d.live(3*time.Hour, quiet) // quiet counts from a run just now
	near(t, "stopped", d.did[idleStop], 40*time.Minute+time.Hour)
}

// Whatever happens, nobody is stopped without a warning in time, nor earlier than
// the policy says.
func TestIdleStopsAreFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := idlePolicy{Stop: time.Duration(rapid.IntRange(1, 60).Draw(t, "stop")) * time.Minute, Warn: time.Duration(rapid.IntRange(1, 20).Draw(t, "warn")) * time.Minute}
		d := newDay(policy)
		var last time.Duration // of activity, or of not knowing
		for range 20 {
			span := time.Duration(rapid.IntRange(5, 1200).Draw(t, "span")) * time.Second
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				d.live(span, busy)
				last = d.now.Sub(d.began)
			case 1:
				d.live(span, unknown)
				last = d.now.Sub(d.began)
			default:
				d.live(span, func(time.Duration) *nodewire.Activity { return quiet(d.now.Sub(d.began) - last) })
			}
			if stops := d.did[idleStop]; len(stops) > 0 {
				warns := d.did[idleWarn]
				if len(warns) == 0 || stops[0]-warns[len(warns)-1] < min(policy.Warn, policy.Stop)-2*time.Second {
					t.Fatalf("stopped at %v, warned at %v, %v before is due", stops, warns, policy.Warn)
				}
				if stops[0]-last < policy.Stop-3*time.Second {
					t.Fatalf("stopped at %v, the last activity was at %v, %v is due", stops, last, policy.Stop)
				}
				return
			}
		}
	})
}

// A node is fenced by silence alone only if something on it ends its guests, and
// only for the silence that somebody listened to.
func TestWhenFencingIsDue(t *testing.T) {
	t.Parallel()
	const after, long = 135 * time.Second, time.Hour
	for name, c := range map[string]struct {
		n        postgres.SilentNode
		listened time.Duration
		due      bool
	}{
		"late for long":           {postgres.SilentNode{State: cloud.NodeLate, Watchdog: true, Silent: after}, long, true},
		"lost":                    {postgres.SilentNode{State: cloud.NodeLost, Watchdog: true, Silent: long}, long, true},
		"not yet":                 {postgres.SilentNode{State: cloud.NodeLate, Watchdog: true, Silent: after - time.Second}, long, false},
		"without a watchdog":      {postgres.SilentNode{State: cloud.NodeLost, Silent: long}, long, false},
		"nobody listened so long": {postgres.SilentNode{State: cloud.NodeLost, Watchdog: true, Silent: long}, after - time.Second, false},
		"it reports":              {postgres.SilentNode{State: cloud.NodeReady, Watchdog: true, Silent: long}, long, false},
	} {
		if got := fenceDue(c.n, c.listened, after); got != c.due {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What becomes of an instance whose node is forgotten.
func TestWhatForgettingLeaves(t *testing.T) {
	t.Parallel()
	seen := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	now := seen.Add(time.Hour)
	for name, c := range map[string]struct {
		state   cloud.InstanceState
		desired cloud.DesiredState
		policy  cloud.LossPolicy
		held    bool
		lost    bool
		want    string // state, reason, whether it is queued anew
	}{
		"waits":                      {cloud.StateRunning, cloud.DesiredRunning, cloud.LossWaits, false, false, "failed node_forgotten false"},
		"restarts":                   {cloud.StateRunning, cloud.DesiredRunning, cloud.LossRestarts, false, false, "queued node_lost true"},
		"restarts, was starting":     {cloud.StateStarting, cloud.DesiredRunning, cloud.LossRestarts, false, false, "queued node_lost true"},
		"restarts, its data is lost": {cloud.StateRunning, cloud.DesiredRunning, cloud.LossRestarts, false, true, "failed node_forgotten false"},
		"was stopping":               {cloud.StateStopping, cloud.DesiredStopped, cloud.LossRestarts, false, false, "stopped node_forgotten false"},
		"was being deleted":          {cloud.StateDeleting, cloud.DesiredDeleted, cloud.LossWaits, false, true, "deleted  false"},
		"held":                       {cloud.StateStopped, cloud.DesiredStopped, cloud.LossWaits, true, true, "stopped node_forgotten false"},
	} {
		was := postgres.Standing{State: c.state, Desired: c.desired, OnNodeLoss: c.policy, Held: c.held, NodeID: cloud.NodeID{}.New(), StateAt: seen.Add(-time.Hour), HoldsQuota: true}
		s := forgotten(was, true, c.lost, seen, now)
		got := string(s.inst.State) + " " + s.inst.Reason + map[bool]string{true: " true", false: " false"}[s.requeued]
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if !s.released || s.inst.Held || !s.inst.NodeID.IsZero() || len(s.events) != 1 {
			t.Errorf("%s: it keeps its place: %+v", name, s)
		}
		if c.state == cloud.StateRunning || c.held {
			if until, _ := s.events[0].Data["proven_until"].(time.Time); !until.Equal(seen) {
				t.Errorf("%s: charged until %v, want the last sign of life", name, until)
			}
		}
	}
}

// Each orphan has an alarm, up to twenty; then one more tells of the rest.
func TestAlarmsOfANode(t *testing.T) {
	t.Parallel()
	n := postgres.Condition{ID: cloud.NodeID{}.New(), Name: "n1", State: cloud.NodeReady, Watchdog: true}
	keys := func() (out []string) {
		for _, a := range nodeAlarms(n) {
			out = append(out, a.Key[len("node:")+len(n.ID.String())+1:])
		}
		return out
	}
	if got := keys(); got != nil {
		t.Errorf("a node that is well: %v", got)
	}
	hour := time.Hour
	n.State, n.Fenced, n.Watchdog, n.Restarts, n.UnknownCards, n.CertificateFor = cloud.NodeLost, true, false, 2, 4, &hour
	n.Orphans = []cloud.Orphan{{Driver: "containerd", ID: "inst_x", What: "guest, running"}}
	if diff := cmp.Diff([]string{"lost", "fenced", "orphan:inst_x", "watchdog", "probe", "certificate"}, keys()); diff != "" {
		t.Error(diff)
	}
	n.Orphans = make([]cloud.Orphan, 25)
	if got := len(keys()); got != 5+20+1 {
		t.Errorf("%d alarms for 25 orphans", got)
	}
}
