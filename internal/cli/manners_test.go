package cli

import (
	"encoding/binary"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenon-cloud/tenon/api"
)

func TestWhatCantBeTakenBackWantsYesWithoutATerminal(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, map[string]any{
		"POST /v1/nodes/node-1/fence":            api.Node{Name: "node-1"},
		"POST /v1/nodes/node-1/forget":           nil,
		"DELETE /v1/nodes/node-1/orphans/inst_9": nil,
	})
	for _, args := range []string{"node fence node-1", "node forget node-1", "node orphan remove node-1 inst_9"} {
		if r := tenon(t, cloud.URL, strings.Fields(args)...); r.code != exitUsage || !strings.Contains(r.err, "--yes") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if len(cloud.tokens) != 0 {
		t.Fatalf("%d requests were sent without --yes", len(cloud.tokens))
	}
	for _, args := range []string{"node fence node-1 --yes", "node forget node-1 --yes", "node orphan remove node-1 inst_9 -y"} {
		if r := tenon(t, cloud.URL, strings.Fields(args)...); r.code != 0 {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if len(cloud.tokens) != 3 {
		t.Errorf("%d requests were sent with --yes, want 3", len(cloud.tokens))
	}
}

func TestAnAlarmIsAcknowledgedByItsID(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, map[string]any{
		"POST /v1/alarms/alarm_1/acknowledge": api.Alarm{ID: "alarm_1", Severity: "critical", State: "acknowledged", Message: "node is lost", OpenedAt: ago(time.Minute)},
	})
	if r := tenon(t, cloud.URL, "alarm", "acknowledge", "alarm_1"); r.code != 0 || !strings.Contains(r.out, "acknowledged") {
		t.Errorf("%+v", r)
	}
	if r := tenon(t, cloud.URL, "alarm", "acknowledge", "alarm_2"); r.code != exitNotFound {
		t.Errorf("another: %+v", r)
	}
}

func TestAPrivateKeyIsNotSent(t *testing.T) {
	t.Parallel()
	_, private := newKey(t)
	cloud := newFakeCloud(t, nil)
	path := filepath.Join(t.TempDir(), "id_ed25519")
	if err := os.WriteFile(path, private, 0o600); err != nil {
		t.Fatal(err)
	}
	r := tenon(t, cloud.URL, "instance", "create", "vm-1", "--kind", "vm", "--image", "a", "--flavor", "b", "--ssh-key", path)
	if r.code != exitError || !strings.Contains(r.err, "private key") || strings.Count(r.err, "\n") != 1 || len(cloud.tokens) != 0 {
		t.Errorf("%d requests, %+v", len(cloud.tokens), r)
	}
	if strings.Contains(r.err, "BEGIN") {
		t.Errorf("the key is shown: %s", r.err)
	}
}

func TestWrongFlagGroupsAreUsageErrors(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, nil)
	for _, args := range []string{"instance update vm-1", "instance stop vm-1 --hold --release"} {
		if r := tenon(t, cloud.URL, strings.Fields(args)...); r.code != exitUsage || len(cloud.tokens) != 0 {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestAStopThatIsMetAlreadyIsNoError(t *testing.T) {
	t.Parallel()
	const path = "/v1/projects/default/instances/vm-1"
	vm := func(state, desired, reason string, held bool) api.Instance {
		i := webOne(state)
		i.Name, i.Kind, i.DesiredState, i.Reason, i.Held, i.OnStop = "vm-1", "vm", desired, reason, held, "release"
		return i
	}
	for _, c := range []struct {
		what, flags string
		now         api.Instance
		code        int
	}{
		{"stopped and held", "--hold --wait", vm(api.StateStopped, "stopped", "", true), 0},
		{"stopping to hold", "--hold", vm(api.StateStopping, "stopped", "asked_to_hold", false), 0},
		{"stopping to release", "--hold", vm(api.StateStopping, "stopped", "asked", false), exitRefused},
		{"stopping to hold", "--release", vm(api.StateStopping, "stopped", "asked_to_hold", false), exitRefused},
		{"stopped", "--wait", vm(api.StateStopped, "stopped", "", false), 0},
		{"stopped and held", "", vm(api.StateStopped, "stopped", "", true), exitRefused},
		{"being restarted", "", vm(api.StateStopping, "running", "asked", false), exitRefused},
		{"being deleted", "--wait", vm(api.StateDeleting, "deleted", "", false), exitRefused},
	} {
		cloud := newFakeCloud(t, map[string]any{
			"POST " + path + "/stop": &api.Problem{Status: 409, Code: "state_conflict", Detail: "it can't stop now"},
			"GET " + path:            c.now,
			"GET /v1/projects/prj_1/instances/" + c.now.ID: c.now,
		})
		if r := tenon(t, cloud.URL, append([]string{"instance", "stop", "vm-1"}, strings.Fields(c.flags)...)...); r.code != c.code {
			t.Errorf("%s, stop %s: %+v, want exit code %d", c.what, c.flags, r, c.code)
		}
	}
}

// TestFlagsShowTheirTypes: pflag takes a word in back quotes for a value's name.
func TestFlagsShowTheirTypes(t *testing.T) {
	t.Parallel()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.Contains(f.Usage, "`") {
				t.Errorf("%s --%s has back quotes in its usage: %s", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

func TestAWholeCardIsNamedOnceAndSimulatedGuestsSaySo(t *testing.T) {
	t.Parallel()
	whole := webOne(api.StateRunning)
	whole.GPUs = []api.Claim{{GPUID: "gpu_1", ModelName: "H100 80 GB", Mode: "whole", Profile: "whole", ProfileName: "H100 80 GB", SlotEnd: 8}}
	bare := webOne(api.StateRunning)
	bare.Shape, bare.GPUs = api.Shape{VCPU: 1}, nil
	cloud := newFakeCloud(t, map[string]any{"GET /v1/projects/default/instances/a": whole, "GET /v1/projects/default/instances/b": bare})
	if r := tenon(t, cloud.URL, "instance", "show", "a"); !strings.Contains(r.out, "H100 80 GB, slots 0 to 7 of gpu_1") || strings.Contains(r.out, "H100 80 GB H100 80 GB") {
		t.Errorf("%s", r.out)
	}
	if r := tenon(t, cloud.URL, "instance", "show", "b"); !strings.Contains(r.out, "none (simulated)") {
		t.Errorf("%s", r.out)
	}
}

func TestStatesAreSaidInTheConsolesWords(t *testing.T) {
	t.Parallel()
	state := func(state string, change func(*api.Instance)) api.Instance {
		i := webOne(state)
		i.Name = "i"
		change(&i)
		return i
	}
	for want, i := range map[string]api.Instance{
		"running, unconfirmed": state(api.StateRunning, func(i *api.Instance) { i.Reason = "node_lost" }),
		"running, degraded":    state(api.StateRunning, func(i *api.Instance) { i.Reason, i.IdleStopAt = "gpu_degraded", ptr(noon) }),
		"queued":               state(api.StateQueued, func(i *api.Instance) { i.Reason = "node_lost" }), // taken from its node: nothing of it runs
		"running, idle":        state(api.StateRunning, func(i *api.Instance) { i.IdleStopAt = ptr(noon) }),
		"stopped, GPU held":    state(api.StateStopped, func(i *api.Instance) { i.Held = true }),
		"stopped, place held":  state(api.StateStopped, func(i *api.Instance) { i.Held, i.Shape = true, api.Shape{VCPU: 1} }),
	} {
		cloud := newFakeCloud(t, map[string]any{"GET /v1/projects/default/instances": page(i), "GET /v1/projects/default/instances/i": i})
		if r := tenon(t, cloud.URL, "instance", "list"); !strings.Contains(r.out, "i     "+want+"  ") {
			t.Errorf("list does not say %q:\n%s", want, r.out)
		}
		if r := tenon(t, cloud.URL, "instance", "show", "i"); !strings.Contains(r.out, want+" for ") {
			t.Errorf("show does not say %q:\n%s", want, r.out)
		}
	}
}

func TestAVMThatBootsSaysSo(t *testing.T) {
	t.Parallel()
	vm := webOne(api.StateRunning)
	vm.Name, vm.Kind = "vm-1", "vm"
	answers := map[string]any{
		"GET /v1/projects/default/instances/vm-1":                 func() any { return vm },
		"GET /v1/projects/prj_1/instances/" + vm.ID + "/ports/22": &api.Problem{Status: http.StatusConflict, Code: "port_closed", Detail: "nothing answers on port 22"},
	}
	cloud := newFakeCloud(t, answers)
	vm.StartedAt = ptr(ago(2 * time.Minute))
	if r := tenon(t, cloud.URL, "instance", "shell", "vm-1"); r.code != exitRefused || !strings.Contains(r.err, "may still be booting") || !strings.Contains(r.err, "tenon instance console vm-1") {
		t.Errorf("lately started: %+v", r)
	}
	vm.StartedAt = ptr(ago(time.Hour))
	if r := tenon(t, cloud.URL, "instance", "shell", "vm-1"); r.code != exitRefused || strings.Contains(r.err, "booting") {
		t.Errorf("started long ago: %+v", r)
	}
}

func TestADiskInSeveralFilesIsNotUploaded(t *testing.T) {
	t.Parallel()
	disk := func(change func([]byte)) []byte {
		head := make([]byte, 512)
		copy(head, "QFI\xfb")
		binary.BigEndian.PutUint32(head[4:], 3)
		binary.BigEndian.PutUint64(head[24:], 1<<30)
		binary.BigEndian.PutUint32(head[100:], 104)
		change(head)
		return head
	}
	for want, head := range map[string][]byte{
		"":                         disk(func([]byte) {}),
		"not a qcow2 disk":         []byte("MZ"),
		"based on another file":    disk(func(h []byte) { h[15] = 1 }),
		"its data in another file": disk(func(h []byte) { h[79] = qcow2ExternalData }),
		"is encrypted":             disk(func(h []byte) { h[35] = 1 }),
		"is marked as corrupt":     disk(func(h []byte) { h[79] = qcow2Corrupt }),
	} {
		path := filepath.Join(t.TempDir(), "disk.qcow2")
		if err := os.WriteFile(path, head, 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkDisk(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	named := disk(func(h []byte) { binary.BigEndian.PutUint32(h[104:], qcow2DataFile); h[111] = 4 })
	if what := diskProblem(named); !strings.Contains(what, "another file") {
		t.Errorf("a named data file: %q", what)
	}
}

func TestAVMThatBootsIsTriedAgain(t *testing.T) {
	t.Parallel()
	vm := webOne(api.StateRunning)
	vm.StartedAt = ptr(ago(time.Minute))
	asked := 0
	cloud := newFakeCloud(t, map[string]any{"GET /v1/projects/prj_1/instances/" + vm.ID + "/ports/22": func() any {
		if asked++; asked == 1 {
			return &api.Problem{Status: http.StatusConflict, Code: "port_closed"}
		}
		return &api.Problem{Status: http.StatusNotFound, Code: "not_found"}
	}})
	var said strings.Builder
	a := &app{Streams: Streams{Err: &said, Now: func() time.Time { return noon }}}
	_, err := a.bootedPort(t.Context(), api.NewClient(cloud.URL, "tenon_test"), &vm, time.Minute)
	if !errors.Is(err, &api.Problem{Code: "not_found"}) || asked != 2 || !strings.Contains(said.String(), "booting") {
		t.Errorf("asked %d times, said %q: %v", asked, said.String(), err)
	}
}
