package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestATraceIsReplayedWithoutACloud(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nodes := write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\nn2,64000,262144,2,T4\n")
	pods := write("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np1,1000,1024,1,500,\np2,1000,1024,2,1000,T4\n")
	r := tenon(t, "http://127.0.0.1:1", "simulate", "--nodes", nodes, "--pods", pods, "--arrived", "1.3", "--seeds", "42-51", "-o", "json")
	var got struct {
		Allocation struct {
			At100 *float64 `json:"at_100"`
			At130 *float64 `json:"at_130"`
		} `json:"allocation_percent"`
		PerSeed []struct {
			Seed int64 `json:"seed"`
		} `json:"per_seed"`
		Rate *float64 `json:"decisions_per_second"`
		P99  *float64 `json:"decision_p99_us"`
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	if got.Allocation.At100 == nil || got.Allocation.At130 == nil || *got.Allocation.At130 > 100 || len(got.PerSeed) != 10 || got.PerSeed[9].Seed != 51 || got.Rate == nil || got.P99 == nil {
		t.Errorf("%s", r.out)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"simulate", exitUsage, "nodes"},
		{"simulate --nodes " + nodes + " --pods " + pods + " --seeds 5-4", exitUsage, "--seeds"},
		{"simulate --nodes " + nodes + " --pods " + pods + " --policy luck", exitError, "fgd"},
		{"simulate --nodes " + nodes + " --pods " + filepath.Join(dir, "absent"), exitError, "absent"},
		{"simulate --nodes " + pods + " --pods " + pods, exitError, "no column gpu"},
		{"simulate mig --mix luck", exitError, "uniform"},
	} {
		if r := tenon(t, "http://127.0.0.1:1", strings.Fields(c.args)...); r.code != c.code || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	r = tenon(t, "http://127.0.0.1:1", strings.Fields("simulate mig --gpus 10 --requests 2000 --seeds 2 -o json")...)
	if r.code != 0 || !strings.Contains(r.out, `"accepted_percent"`) || !strings.Contains(r.out, `"accepted_memory_percent"`) {
		t.Errorf("%+v", r)
	}
}

func TestSeedsAreARangeAListOrANumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int64{"3": {1, 2, 3}, "42-44": {42, 43, 44}, "7,7,1": {7, 7, 1}, "0-0": {0}} {
		if got, err := parseSeeds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "2-1", "1,", "x", "1001", "1-9223372036854775807", "1-2-3"} {
		if got, err := parseSeeds(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
