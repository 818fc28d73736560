package deploy_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/schema"
	"gopkg.in/yaml.v3"
)

// TestComposeFile checks docker-compose.yml against the published schema of the
// Compose Specification.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var compose map[string]any
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(compose); err != nil {
		t.Errorf("docker-compose.yml is not a Compose file: %v", err)
	}
	// The check is only worth something if it can fail.
	services, _ := compose["services"].(map[string]any)
	tenond, _ := services["tenond"].(map[string]any)
	tenond["prots"] = []any{"1:1"}
	if err := schema.Validate(compose); err == nil {
		t.Error("a misspelt key passes the schema")
	}
}

// TestComposeNamesWhatIsThere: files and settings that the compose file and the
// units name exist in the tree and in the code.
func TestComposeNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	code := ""
	for _, pattern := range []string{"../cmd/tenond/*.go", "../cmd/tenon-agent/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			code += string(text)
		}
	}
	for _, path := range []string{"../docker-compose.yml", "systemd/tenond.service", "systemd/tenon-agent.service", "systemd/tenon-containerd.service", "systemd/tenon-watchdog.service", "systemd/tenon-virtlogd.service", "systemd/tenon-libvirtd.service"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
			if strings.HasPrefix(word, "TENON_") && !strings.Contains(code, `"`+word+`"`) {
				t.Errorf("%s sets %s, which no program reads", path, word)
			}
		}
	}
	if _, err := os.Stat("Dockerfile"); err != nil {
		t.Errorf("the compose file builds from it: %v", err)
	}
}

// TestScriptsParse: each script is what its first line says.
func TestScriptsParse(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range append(scripts, "../.ci/run") {
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// TestStepTellsSuccessFromFailure: a step that works is quiet, one that fails
// shows its output and passes its exit code on.
func TestStepTellsSuccessFromFailure(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "sh", "step.sh", "try it", "true").CombinedOutput()
	if err != nil || len(out) != 0 {
		t.Errorf("a step that works: %v, said %q", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "sh", "step.sh", "try it", "sh", "-c", "echo why; exit 3").CombinedOutput()
	if code := exitCode(err); code != 3 || !strings.Contains(string(out), "why") {
		t.Errorf("a step that fails: exit code %d, said %q", code, out)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
