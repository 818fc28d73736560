package httpapi

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write api/openapi.yaml")

// TestContractIsCommitted fails when an operation or a type changed and
// api/openapi.yaml did not: run `make gen`.
func TestContractIsCommitted(t *testing.T) {
	t.Parallel()
	got, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../api/openapi.yaml"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("api/openapi.yaml is not what the operations say (run `make gen`):\n%s", diff)
	}
}
