package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestDecide is the reconciler's whole table: what is wanted × what is recorded
// × what the engine has. Epoch 2 and generation 5 are the assignment's.
func TestDecide(t *testing.T) {
	t.Parallel()
	const boot = "boot-1"
	began := time.Unix(1000, 0)
	code := func(n int) *int { return &n }
	wants := map[string]*nodewire.Instance{
		"absent":  nil,
		"running": {Epoch: 2, Generation: 5, Desired: nodewire.DesiredRunning},
		"stopped": {Epoch: 2, Generation: 5, Desired: nodewire.DesiredStopped},
		"gone":    {Epoch: 2, Generation: 5, Desired: nodewire.DesiredGone},
	}
	recs := map[string]*record{
		"none":         nil,
		"fresh":        {Epoch: 2},
		"started":      {Epoch: 2, RunGeneration: 5, RunBoot: boot},
		"started-gen4": {Epoch: 2, RunGeneration: 4, RunBoot: boot},
		"begun":        {Epoch: 2, StartBoot: boot},
		"begun-before": {Epoch: 2, StartBoot: "boot-0"},
		"other-boot":   {Epoch: 2, RunGeneration: 5, RunBoot: "boot-0"},
		"halted":       {Epoch: 2, RunGeneration: 5, RunBoot: boot, Halted: true},
		"after-e1":     {Epoch: 2, Earlier: []int64{1}},
		"ending":       {Epoch: 2, End: &ending{State: nodewire.GuestFailed, ExitCode: code(1)}},
		"ended":        {Epoch: 2, End: &ending{State: nodewire.GuestStopped, Done: true}},
		"going":        {Epoch: 2, End: &ending{State: nodewire.GuestGone}},
		"gone":         {Epoch: 2, End: &ending{State: nodewire.GuestGone, Done: true}},
	}
	guests := map[string]*hypervisor.Guest{
		"none":     nil,
		"prepared": {Epoch: 2, Generation: 5, State: hypervisor.Prepared},
		"running":  {Epoch: 2, Generation: 5, State: hypervisor.Running},
		"run-gen4": {Epoch: 2, Generation: 4, State: hypervisor.Running},
		"run-e1":   {Epoch: 1, Generation: 5, State: hypervisor.Running},
		"exit-0":   {Epoch: 2, Generation: 5, State: hypervisor.Exited},
		"exit-3":   {Epoch: 2, Generation: 5, State: hypervisor.Exited, ExitCode: 3},
		"exit-oom": {Epoch: 2, Generation: 5, State: hypervisor.Exited, ExitCode: 137, OOMKilled: true},
		"exit-137": {Epoch: 2, Generation: 5, State: hypervisor.Exited, ExitCode: 137, ExitedAt: began.Add(time.Second)},
		"killed":   {Epoch: 2, Generation: 5, State: hypervisor.Exited, ExitCode: 137, ExitedAt: began.Add(-time.Second)},
		"exit-g4":  {Epoch: 2, Generation: 4, State: hypervisor.Exited},
	}
	for _, tc := range []struct{ want, rec, guest, do string }{
		// Never ours: left alone, whatever it is.
		{"absent", "none", "running", "idle"},
		{"absent", "none", "none", "idle"},
		// Absent but ours: no trace may be left.
		{"absent", "started", "running", "forget"},
		{"absent", "ended", "none", "forget"},
		{"absent", "fresh", "run-e1", "forget"},
		// Wanted running.
		{"running", "fresh", "none", "make"},
		{"running", "fresh", "prepared", "make"},
		{"running", "fresh", "running", "watch"},
		{"running", "started", "running", "watch"},
		{"running", "started", "run-gen4", "restart"},
		{"running", "started-gen4", "none", "make"}, // a crash in a restart
		{"running", "started-gen4", "exit-g4", "restart"},
		{"running", "started", "none", "end failed interrupted"},
		{"running", "started", "exit-0", "end stopped exited 0"},
		{"running", "fresh", "exit-0", "end stopped exited 0"},
		{"running", "started", "exit-3", "end failed exited 3"},
		{"running", "started", "exit-oom", "end failed out_of_memory 137"},
		{"running", "started", "exit-137", "end failed exited 137"},
		{"running", "started", "killed", "end failed interrupted"}, // with the node, before this agent began
		{"running", "begun", "none", "make"},
		{"running", "begun-before", "none", "end failed node_rebooted"},
		{"running", "begun-before", "prepared", "end failed node_rebooted"},
		{"running", "begun-before", "running", "watch"},
		{"running", "other-boot", "exit-3", "end failed node_rebooted"},
		{"running", "other-boot", "none", "end failed node_rebooted"},
		{"running", "other-boot", "exit-0", "end failed node_rebooted"},
		{"running", "other-boot", "prepared", "end failed node_rebooted"}, // what a host without its processes shows
		{"running", "halted", "exit-0", "end failed node_rebooted"},       // a soft reboot: the kernel stays
		{"running", "halted", "none", "end failed node_rebooted"},
		{"running", "halted", "running", "watch"}, // the host stayed up after all
		{"stopped", "halted", "exit-0", "end stopped asked"},
		{"running", "other-boot", "run-gen4", "restart"},
		{"stopped", "other-boot", "prepared", "end stopped asked"},
		{"gone", "other-boot", "none", "end gone asked"},
		{"running", "after-e1", "none", "clear"},
		{"running", "after-e1", "run-e1", "clear"},
		{"running", "fresh", "run-e1", "clear"},
		{"running", "ending", "exit-3", "finish"},
		{"running", "ending", "none", "finish"},
		{"running", "ended", "none", "idle"}, // an epoch ends once
		{"running", "ended", "running", "finish"},
		// Wanted stopped.
		{"stopped", "fresh", "none", "end stopped asked"},
		{"stopped", "started", "running", "end stopped asked"},
		{"stopped", "started", "exit-3", "end stopped asked"},
		{"stopped", "ending", "running", "finish"},
		{"stopped", "ended", "none", "idle"},
		{"stopped", "after-e1", "run-e1", "clear"},
		// Wanted gone.
		{"gone", "fresh", "none", "end gone asked"},
		{"gone", "started", "running", "end gone asked"},
		{"gone", "ended", "none", "end gone asked"},
		{"gone", "ending", "running", "end gone asked"},
		{"gone", "going", "running", "finish"},
		{"gone", "gone", "none", "idle"},
	} {
		do, e := decide(view{want: wants[tc.want], rec: recs[tc.rec], guest: guests[tc.guest], boot: boot, since: began})
		got := string(do)
		if e != nil {
			got += " " + e.State + " " + e.Reason
			if e.ExitCode != nil {
				got += fmt.Sprint(" ", *e.ExitCode)
			}
		}
		if got != tc.do {
			t.Errorf("want %s, record %s, guest %s: %q, should be %q", tc.want, tc.rec, tc.guest, got, tc.do)
		}
	}
}

// TestNothingIsChargedAfterTheLastProof: a node that was away for hours says when
// its guests ended, not when it came back.
func TestNothingIsChargedAfterTheLastProof(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	want := &nodewire.Instance{Epoch: 2, Generation: 5, Desired: nodewire.DesiredRunning}
	for name, tc := range map[string]struct {
		exited, proof time.Time
		code          int
		reason        string
		end           time.Time
	}{
		"exited by itself while no agent watched":     {exited: at(60), proof: at(30), code: 3, reason: nodewire.ReasonExited, end: at(60)},
		"killed with the node, noticed hours later":   {exited: at(7200), proof: at(45), code: 137, reason: nodewire.ReasonInterrupted, end: at(45)},
		"killed with the node, nobody knows when":     {proof: at(45), code: 137, reason: nodewire.ReasonInterrupted, end: at(45)},
		"killed before the agent's last sign of life": {exited: at(40), proof: at(45), code: 137, reason: nodewire.ReasonInterrupted, end: at(40)},
	} {
		g := &hypervisor.Guest{Epoch: 2, Generation: 5, State: hypervisor.Exited, ExitCode: tc.code, StartedAt: start, ExitedAt: tc.exited}
		_, e := decide(view{want: want, rec: &record{Epoch: 2, RunGeneration: 5, RunBoot: "b"}, guest: g, boot: "b", since: at(7300), proof: tc.proof})
		if e == nil || e.Reason != tc.reason || !e.At.Equal(tc.end) || e.RanForSeconds != tc.end.Sub(start).Seconds() {
			t.Errorf("%s: %+v, want %s at %s", name, e, tc.reason, tc.end)
		}
	}
}

// TestNothingIsChargedWhileTheHostWasDown: with no sign of life, or one by a clock
// that was ahead of what it is now, a run ended with its boot at the latest.
func TestNothingIsChargedWhileTheHostWasDown(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	want := &nodewire.Instance{Epoch: 2, Generation: 5, Desired: nodewire.DesiredRunning}
	for name, tc := range map[string]struct{ proof, end time.Time }{
		"no sign of life":         {end: at(100)},
		"one from before":         {proof: at(40), end: at(40)},
		"one that is yet to come": {proof: at(900), end: at(100)},
	} {
		_, e := decide(view{want: want, rec: &record{Epoch: 2, RunGeneration: 5, RunBoot: "b"}, boot: "c", since: at(110), proof: tc.proof, booted: at(100)})
		if e == nil || e.Reason != nodewire.ReasonRebooted || !e.At.Equal(tc.end) {
			t.Errorf("%s: %+v, want an end at %s", name, e, tc.end)
		}
	}
}
