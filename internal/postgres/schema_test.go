package postgres_test

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/pgtest"
)

var update = flag.Bool("update", false, "write the golden schema dump")

const (
	goldenSchema = "../../migrations/schema.sql"
	goldenMajor  = "15"
)

// What the migrations make is what was reviewed.
func TestSchemaIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	dump := pgtest.Binary("pg_dump")
	if dump == "" {
		t.Skip("pg_dump is not beside the server: the schema dump is not compared")
	}
	version, err := exec.Command(dump, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	major := regexp.MustCompile(`\d+`).FindString(string(version))
	if major != goldenMajor {
		t.Skipf("the golden dump is pg_dump %s's and this is %s: they spell differently, so it is not compared", goldenMajor, major)
	}
	d := pgtest.New(t)
	out, err := exec.Command(dump, "--schema-only", "--no-owner", "--exclude-table=goose_db_version*", "-d", d.DSN+" user=tenon_owner").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := tidy(string(out))
	if *update {
		if err := os.WriteFile(goldenSchema, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenSchema)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("run with -update and look at the change:\n%s", diff)
	}
}

// tidy drops what differs between runs and says nothing.
func tidy(dump string) string {
	var out []string
	blank := false
	for line := range strings.SplitSeq(dump, "\n") {
		if strings.HasPrefix(line, "--") || strings.HasPrefix(line, "SET ") || strings.HasPrefix(line, `\`) || strings.HasPrefix(line, "SELECT pg_catalog.set_config") {
			continue
		}
		if line == "" {
			blank = len(out) > 0
			continue
		}
		if blank {
			out = append(out, "")
			blank = false
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n") + "\n"
}
