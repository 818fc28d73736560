package wall

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHouse is the wall itself: the whole repository keeps every rule.
func TestHouse(t *testing.T) {
	t.Parallel()
	files := repository(t)
	if len(files) < 50 {
		t.Fatalf("only %d files were found: the walk is broken", len(files))
	}
	var lines []string
	for _, f := range Check(files) {
		lines = append(lines, f.String())
	}
	slices.Sort(lines)
	for _, line := range lines {
		t.Error(line)
	}
}

// repository reads what git would commit; without git, what is there.
func repository(t *testing.T) []File {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	if out, err := exec.Command("git", "-C", root, "-c", "safe.directory="+root, "ls-files", "--cached", "--others", "--exclude-standard").Output(); err == nil {
		paths = strings.Split(strings.TrimSpace(string(out)), "\n")
	} else {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && slices.Contains([]string{".git", "var", "bin", "node_modules", "dist"}, d.Name()) {
				return filepath.SkipDir
			}
			if err == nil && d.Type().IsRegular() {
				rel, _ := filepath.Rel(root, path)
				paths = append(paths, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var files []File
	for _, p := range paths {
		if !written.MatchString(p) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, p))
		if os.IsNotExist(err) {
			continue // deleted and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Path: filepath.ToSlash(p), Text: string(text)})
	}
	return files
}

const doc = "// Package x is for the test.\n"

func goText(imports ...string) string {
	text := doc + "package x\n"
	for _, i := range imports {
		text += "import _ \"" + i + "\"\n"
	}
	return text
}

// TestEachRuleFires plants what each rule forbids, next to what it allows.
func TestEachRuleFires(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, text string
		want       string // part of the finding; empty: allowed
	}{
		{"internal/cloud/x.go", goText(module + "/internal/app"), "imports only go down"},
		{"internal/app/x.go", goText(module+"/internal/cloud", module+"/internal/postgres", module+"/internal/authn"), ""},
		{"internal/authn/x.go", goText(module + "/internal/app"), "imports only go down"},
		{"internal/agent/x.go", goText(module+"/internal/nodewire", module+"/internal/device/sim"), ""},
		{"internal/agent/x.go", goText(module + "/internal/postgres"), "never import each other"},
		{"internal/device/sim/x.go", goText(module + "/internal/app"), "never import each other"},
		{"internal/scheduler/x.go", goText(module + "/internal/hypervisor/containerd"), "never import each other"},
		{"cmd/tenon-agent/main.go", goText(module + "/internal/app"), "never import each other"},
		{"cmd/tenond/main.go", goText(module+"/internal/app", module+"/internal/devcloud"), ""},
		{"cmd/tenon/main.go", goText(module + "/internal/devcloud"), "nothing imports the wiring"},
		{"internal/httpapi/x.go", goText(module + "/internal/pgtest"), "for tests"},
		{"internal/httpapi/x_test.go", goText(module + "/internal/pgtest"), ""},
		{"internal/cli/x.go", goText(module + "/internal/cloud"), "public client alone"},
		{"internal/scheduler/x.go", goText(module + "/api"), "wire types"},
		{"api/x.go", goText(module + "/internal/cloud"), "imports nothing of Tenon's"},
		{"internal/newcomer/x.go", goText(module + "/internal/cloud"), "table of floors"},
		{"internal/app/x.go", goText("github.com/jackc/pgx/v5"), "speaks SQL"},
		{"internal/postgres/x.go", goText("github.com/jackc/pgx/v5/pgxpool"), ""},
		{"internal/app/x.go", goText("github.com/danielgtaylor/huma/v2"), "API framework"},
		{"internal/placement/x.go", goText("context"), "no I/O"},
		{"internal/billing/x.go", goText("net/http"), "no I/O"},
		{"internal/cloud/x.go", goText("database/sql/driver", "errors"), ""},
		{"internal/placement/x.go", goText("time") + "var _ = time.Now()\n", "pure package"},
		{"internal/agent/x.go", goText("C"), "only cgo"},
		{"internal/app/x.go", doc + "package x\nconst q = `SELECT id FROM instance`\n", "speaks SQL"},
		{"internal/app/x.go", doc + "package x\nconst q = `Select an image from the list`\n", ""},
		{"internal/postgres/x.go", doc + "package x\nconst q = `INSERT INTO gpu_claim (id) VALUES ($1)`\n", "two racing plain inserts deadlock"},
		{"internal/postgres/x.go", doc + "package x\nconst q = `INSERT INTO gpu_claim (id) ` + values + ` ON CONFLICT DO NOTHING`\n", ""},
		{"internal/app/x.go", doc + "package x\n// " + "TO" + "DO later\nvar a int\n", "is an issue"},
		{"internal/app/x_test.go", goText("time") + "func f() { time.Sleep(1) }\n", "never for time"},
		{"internal/app/x_test.go", doc + "package x\nfunc f(t T) { t.Skip() }\n", "prints why"},
		{"internal/app/x_test.go", doc + "package x\nfunc f(t T) { t.Skip(\"no root\") }\n", ""},
		{"internal/app/x.go", "package x\n", "no package comment"},
		{"internal/app/util.go", doc + "package x\n", "says nothing"},
		{"web/src/lib/helpers.ts", "export const a = 1\n", "says nothing"},
		{"web/src/ui/long.tsx", strings.Repeat("\n", 501), "501 lines"},
		{"web/src/api/schema.gen.ts", strings.Repeat("\n", 5000), ""},
		{"internal/app/x_test.go", doc + "package x\n" + strings.Repeat("\n", 700), ""},
		{"internal/app/broken.go", "package", "parse"},
	} {
		found := Check([]File{{c.path, c.text}})
		var all []string
		for _, f := range found {
			all = append(all, f.String())
		}
		said := strings.Join(all, "\n")
		if c.want == "" && said != "" || c.want != "" && !strings.Contains(said, c.want) {
			t.Errorf("%s\n%.300s\nfound: %q\nwant: %q", c.path, c.text, said, c.want)
		}
	}
}
