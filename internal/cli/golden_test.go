package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

// everything is a small cloud in which each list has something in it.
func everything() map[string]any {
	queued := webOne(api.StateQueued)
	queued.Name, queued.Message, queued.Flavor = "train-1", "waits for a free 1g.10gb slice", "h100-1g"
	queued.Reasons = []api.Reason{{Reason: "no_free_slots", Count: 2, Message: "no free place for 1g.10gb"}}
	queued.Progress = nil
	failed := webOne(api.StateFailed)
	failed.Name, failed.Reason, failed.Message, failed.ExitCode, failed.LastLines = "job-1", "exited", "its command ended with exit code 3", ptr(3), "loading\nno such dataset\n"
	failed.Shape = api.Shape{VCPU: 1, MemoryMiB: 512, DiskMiB: 1024}
	failed.Simulated = false
	failed.PricePerHourMicros = nil
	gpu := api.GPU{ID: "gpu_1", Node: "node-1", PCIAddress: "0000:db:00.0", Index: 0, ModelName: "H100 80 GB", Mode: "mig", State: "ready", Simulated: true, Slots: 8,
		Claims: []api.Claim{{Instance: "web-1", ProfileName: "1g.10gb", SlotStart: 6, SlotEnd: 7}, {Instance: "web-2", ProfileName: "3g.40gb", SlotStart: 0, SlotEnd: 4}}}
	broken := api.GPU{ID: "gpu_2", Node: "node-1", Index: 1, ModelName: "A100 80 GB", Mode: "whole", State: "unhealthy", Reason: "fallen off the bus", Slots: 8}
	gang := api.Job{ID: "job_1", Name: "train", Project: "default", State: api.JobQueued, Image: "debian-12", Flavor: "h100-1g", Pool: "default", Shape: h100Slice, Command: []string{"python3", "train.py"},
		MembersMin: 4, MembersMax: 4, Priority: "high", Retries: 2, RetriesUsed: 1, Attempt: 2, MaxSeconds: ptr(14_400), QueuePlace: 3, Message: "needs one node for all 4 members, waits: 1 GPU: in use",
		Reasons: []api.Reason{{Reason: "gpu_busy", Count: 1, Message: "1 GPU: in use"}}, Counts: api.JobCounts{Waiting: 4}, MemberPriceMicros: ptr(int64(412_500)), PricePerHourMicros: ptr(int64(0)), Currency: "USD",
		CreatedBy: "ada@example.org", CreatedAt: ago(time.Hour), StateAt: ago(time.Minute),
		Members:  []api.JobMember{{Rank: 0, Instance: "train-0", InstanceID: "inst_1", State: api.StateQueued, Message: "waits: 1 GPU: in use"}},
		Attempts: []api.JobTry{{Number: 1, Outcome: "failed", Message: "member 1: it ended by itself with exit code 3", EndedAt: ago(time.Minute)}}}
	array := api.Job{ID: "job_2", Name: "sweep", State: api.JobRunning, Image: "debian-12", Flavor: "cpu-small", Pool: "default", Shape: api.Shape{VCPU: 1, MemoryMiB: 512, DiskMiB: 1024},
		MembersMin: 1, MembersMax: 1, ArrayTasks: 100, ArrayParallel: 4, Attempt: 1, Counts: api.JobCounts{Waiting: 90, Active: 4, Succeeded: 5, Failed: 1}, CreatedAt: ago(2 * time.Hour), StateAt: ago(time.Hour)}
	return map[string]any{
		"GET /v1/projects/default/jobs":                   page(gang, array),
		"GET /v1/projects/default/jobs/train":             gang,
		"GET /v1/projects/default/instances":              page(webOne(api.StateRunning), queued, failed),
		"GET /v1/projects/default/instances/web-1":        webOne(api.StateRunning),
		"GET /v1/projects/default/instances/train-1":      queued,
		"GET /v1/projects/default/instances/job-1":        failed,
		"GET /v1/projects/default/instances/web-1/events": page(api.Event{Seq: 1, Verb: "created", Message: "created by ada@example.org", At: ago(90 * time.Minute)}, api.Event{Seq: 2, Verb: "running", Message: "running on node-1", At: ago(80 * time.Minute)}),
		"GET /v1/projects/default/instances/web-1/logs":   "one\ntwo\n",
		"POST /v1/projects/default/instances:dry-run": api.DryRunResult{Flavor: "h100-1g", PricePerHourMicros: ptr(int64(412_500)), Currency: "USD", FreeNow: 0, Ahead: 3, Pool: "default", Simulated: true, Reasons: queued.Reasons,
			Instead: []api.Instead{{Flavor: "h100-2g", Why: "more of the same GPU", FreeNow: 2}}},
		"GET /v1/gpus": page(gpu, broken),
		"GET /v1/gpus/gpu_1/history": page(
			api.GPUStay{Instance: "web-1", Organisation: "acme", Epoch: 2, ProfileName: "1g.10gb", SlotStart: 6, SlotEnd: 7, From: ago(time.Hour)},
			api.GPUStay{Instance: "web-1", Organisation: "acme", Epoch: 1, ProfileName: "1g.10gb", SlotStart: 6, SlotEnd: 7, From: ago(26 * time.Hour), To: ptr(ago(time.Hour))},
			api.GPUStay{Instance: "old", Organisation: "umbrella", Epoch: 4, ProfileName: "whole", SlotEnd: 8, From: ago(90 * time.Hour), To: ptr(ago(80 * time.Hour))}),
		"POST /v1/gpus/gpu_1/simulate-fault": gpu,
		"GET /v1/nodes":                      page(api.Node{Name: "node-1", Pool: "default", State: "ready", Drained: true, VCPU: 16, MemoryMiB: 65536, CPUOvercommit: 4, UsedVCPU: 6, UsedMemoryMiB: 9216, LastSeenAt: ptr(ago(2 * time.Second)), GPUs: []api.GPU{gpu, broken}}),
		"GET /v1/nodes/node-1": api.Node{Name: "node-1", ID: "node_1", Pool: "default", State: "late", FencedAt: ptr(ago(time.Minute)), FencedBy: "operator", Kinds: []string{"container", "vm"},
			Labels: map[string]string{"rack": "r1"}, VCPU: 16, MemoryMiB: 65536, CPUOvercommit: 4, Generation: 7, AckGeneration: 6, LastSeenAt: ptr(ago(3 * time.Minute)),
			Orphans: []api.Orphan{{Driver: "containerd", ID: "inst_9", What: "guest, running"}}, Stays: &api.NodeStayCounts{Running: 1, Held: 1, Volumes: 2, FencedClaims: 1, Orphans: 1}},
		"POST /v1/nodes/node-1/drain": api.Node{Name: "node-1", State: "ready", Drained: true},
		"GET /v1/nodes/node-1/stays": api.List[api.NodeStay]{Items: []api.NodeStay{
			{InstanceID: "inst_1", Instance: "web-1", Org: "acme", Kind: "container", State: "running", Reason: "running", Message: "it runs here until its tenant stops or deletes it, or it ends by itself"},
			{Orphan: "inst_9", Kind: "containerd", State: "guest, running", Reason: "orphan", Message: "nobody assigned it; it goes when an operator lets the node remove it"}}},
		"GET /v1/alarms":             page(api.Alarm{ID: "alarm_1", Severity: "critical", State: "open", Message: "node node-1 was confirmed to be off", OpenedAt: ago(time.Minute)}),
		"PATCH /v1/projects/default": api.Project{Name: "default", ID: "prj_1", CreatedAt: ago(50 * time.Hour), IdleStopSeconds: ptr(7200), IdleWarnSeconds: 600},
		"GET /v1/flavors": api.List[api.Flavor]{Items: []api.Flavor{
			{Name: "h100-1g", Shape: h100Slice, PricePerHourMicros: ptr(int64(412_500)), Currency: "USD", FreeNow: 12, FreeSimulatedNow: 700},
			{Name: "cpu-small", Shape: api.Shape{VCPU: 1, MemoryMiB: 512, DiskMiB: 2048}, FreeNow: 40}}},
		"GET /v1/images":   page(api.Image{Name: "debian-12", Kind: "container", Ref: "tenon/debian-12:latest", SizeBytes: 88 << 20, Offered: true, CreatedAt: ago(50 * time.Hour)}),
		"GET /v1/projects": page(api.Project{Name: "default", ID: "prj_1", CreatedAt: ago(50 * time.Hour)}),
		"GET /v1/tokens":   page(api.Token{Name: "make-run", Hint: "tenon_…x9Yz", ExpiresAt: ptr(noon.Add(time.Hour)), LastUsedAt: ptr(ago(time.Minute))}, api.Token{Name: "old", Hint: "tenon_…abcd", ExpiresAt: ptr(ago(time.Hour))}),
		"GET /v1/me":       api.Me{User: api.User{Email: "ada@example.org", Operator: true}, Organisation: api.MyOrganisation{Name: "default", Role: "owner"}, Version: "1.2.4"},
		"GET /v1/projects/default/usage": api.Usage{GroupBy: "day", Currency: "USD", TotalMicros: 412_512, Running: 1, RatePerHourMicros: 412_500, Items: []api.UsageLine{
			{Day: "2026-11-30", SKU: "gpu/h100-80gb/1g", Name: "H100 80 GB 1g.10gb", Quantity: 1.0, Unit: "device hours", CostMicros: 412_500},
			{Day: "2026-11-30", SKU: "vcpu", Name: "vCPU", Quantity: 0.0012, Unit: "vCPU hours", CostMicros: 12}}},
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, everything())
	for name, args := range map[string]string{
		"instance-list":        "instance list",
		"node-show":            "node show node-1",
		"node-drain":           "node drain node-1",
		"alarm-list":           "alarm list",
		"project-update":       "project update --idle-stop 2h --idle-warn 10m",
		"help-node":            "node --help",
		"instance-list-yaml":   "instance list -o yaml",
		"instance-show":        "instance show web-1",
		"instance-show-json":   "instance show web-1 -o json",
		"instance-show-queued": "instance show train-1",
		"instance-show-failed": "instance get job-1",
		"instance-events":      "instance events web-1",
		"instance-logs":        "instance logs web-1",
		"placement-explain":    "placement explain train-1",
		"placement-dry-run":    "placement dry-run --image debian-12 --gpu-memory 24",
		"instance-create-dry":  "instance create a --image debian-12 --flavor h100-1g --dry-run",
		"gpu-list":             "gpu list",
		"gpu-history":          "gpu history gpu_1",
		"gpu-simulate-fault":   "gpu simulate-fault gpu_1 --xid 79",
		"help-gpu":             "gpu --help",
		"node-list":            "node list",
		"flavor-list":          "flavor list",
		"image-list":           "image list",
		"project-list":         "project list",
		"token-list":           "token list",
		"whoami":               "whoami",
		"usage":                "usage",
		"version":              "version",
		"help":                 "help",
		"help-instance":        "help instance",
		"help-instance-create": "instance create --help",
		"help-exit-codes":      "help exit-codes",
		"job-list":             "job list",
		"job-show":             "job show train",
		"help-job":             "job --help",
		"help-job-run":         "job run --help",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tenon(t, cloud.URL, strings.Fields(args)...)
			if r.code != 0 {
				t.Fatalf("exit code %d: %s", r.code, r.err)
			}
			golden(t, name, "$ tenon "+args+"\n"+strings.ReplaceAll(r.out, cloud.URL, "http://cloud.example"))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
