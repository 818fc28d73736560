package simulate

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

var workloads = []string{"cpu050", "cpu100", "cpu200", "cpu250", "default", "gpushare40", "gpushare60", "gpushare80", "gpushare100",
	"gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33", "multigpu20", "multigpu30", "multigpu40", "multigpu50"}

// openb is a replay of one of the published workloads.
func openb(t testing.TB, workload string) *Replay {
	t.Helper()
	unpacked := func(name string) io.Reader {
		f, err := os.Open(filepath.Join("testdata", "openb", name+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	m := &Models{}
	x := &Replay{Arrived: 1.3, Policy: "tenon"}
	var err error
	if x.Nodes, err = ReadNodes(unpacked("nodes"), m); err != nil {
		t.Fatal(err)
	}
	if x.Pods, err = ReadPods(unpacked(workload), m); err != nil {
		t.Fatal(err)
	}
	return x
}

// published are the published means, by workload and policy: at 100 and at 130 %.
func published(t testing.TB) map[[2]string][2]float64 {
	t.Helper()
	text, err := os.ReadFile("testdata/openb/published.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[[2]string][2]float64{}
	for _, row := range rows[1:] {
		var v [2]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(row[2+i], 64); err != nil {
				t.Fatal(err)
			}
		}
		out[[2]string{row[0], row[1]}] = v
	}
	return out
}

func replay(t testing.TB, x *Replay) *ReplayReport {
	t.Helper()
	r, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The published experiment whole: 17 workloads, seeds 42 to 51, every policy. It
// takes minutes, so `make bench` runs it.
func TestEvaluation(t *testing.T) {
	if os.Getenv("TENON_EVALUATION") == "" {
		t.Skip("minutes of one core: set TENON_EVALUATION=1")
	}
	known := published(t)
	var table bytes.Buffer
	fmt.Fprintln(&table, "workload     policy    at 100  published    at 130  published")
	for _, w := range workloads {
		means := map[string][2]float64{}
		for _, p := range []string{"random", "bestfit", "fgd", "tenon"} {
			x := openb(t, w)
			x.Policy = p
			for s := int64(42); s <= 51; s++ {
				x.Seeds = append(x.Seeds, s)
			}
			a := replay(t, x).Allocation
			got := [2]float64{a["at_100"], a["at_130"]}
			means[p] = got
			if pub, ok := known[[2]string{w, p}]; ok {
				fmt.Fprintf(&table, "%-12s %-8s %7.3f %10.3f %9.3f %10.3f\n", w, p, got[0], pub[0], got[1], pub[1])
				if w == "default" && math.Abs(got[1]-pub[1]) > 0.15 {
					t.Errorf("%s: %s allocates %.3f %%, published are %.3f", w, p, got[1], pub[1])
				}
				continue
			}
			fmt.Fprintf(&table, "%-12s %-8s %7.3f %20.3f\n", w, p, got[0], got[1])
			for i, at := range []string{"100", "130"} {
				if d := got[i] - means["fgd"][i]; d < -0.05 {
					t.Errorf("%s: %.3f points to FGD at %s %%", w, d, at)
				}
			}
		}
		for _, c := range []struct {
			workload string
			mark     int
			least    float64
		}{{"default", 1, 95.6}, {"cpu250", 1, 94.9}, {"gpuspec33", 1, 94.9}, {"gpuspec33", 0, 87.8}} {
			if c.workload == w && means["tenon"][c.mark] < c.least {
				t.Errorf("%s: %.3f %%, want at least %g", w, means["tenon"][c.mark], c.least)
			}
		}
	}
	golden(t, "testdata/evaluation.golden", table.Bytes())
	t.Logf("\n%s", table.Bytes())
}

// One seed of the default workload, which is quick, is always looked at.
func TestOneSeedIsAlwaysTheSame(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	var table bytes.Buffer
	for _, p := range Policies {
		for _, procs := range []int{1, 8} {
			runtime.GOMAXPROCS(procs)
			x := openb(t, "default")
			x.Policy, x.Seeds = p, []int64{7}
			a := replay(t, x).PerSeed[0]
			fmt.Fprintf(&table, "%-8s %d placed, %.4f %% at 100, %.4f %% at 130\n", p, a.Placed, a.Allocation["at_100"], a.Allocation["at_130"])
		}
	}
	golden(t, "testdata/seed7.golden", table.Bytes())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("not as in %s (-update writes it anew):\n%s", path, got)
	}
}
