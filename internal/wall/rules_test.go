package wall

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	ruleTest = regexp.MustCompile("`([a-z0-9_/]+_test\\.go):(Test[A-Za-z0-9_]+|Fuzz[A-Za-z0-9_]+)`")
	ruleRow  = regexp.MustCompile(`^\| (.+) \| (.+) \|$`)
)

// TestRulesHaveTheirTests: each rule of devices names tests, and each is there.
func TestRulesHaveTheirTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../device/RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	files, rules := map[string]string{}, 0
	for i, line := range strings.Split(string(text), "\n") {
		m := ruleRow.FindStringSubmatch(line)
		if m == nil || m[2] == "tests" {
			continue
		}
		rules++
		named := ruleTest.FindAllStringSubmatch(m[2], -1)
		if len(named) == 0 || strings.Count(m[2], "`") != 2*len(named) {
			t.Errorf("line %d: %q does not name its tests as `file_test.go:TestName`", i+1, m[1])
		}
		for _, n := range named {
			if _, read := files[n[1]]; !read {
				source, err := os.ReadFile("../" + n[1])
				if err != nil {
					t.Errorf("line %d: %v", i+1, err)
				}
				files[n[1]] = string(source)
			}
			if !strings.Contains(files[n[1]], "\nfunc "+n[2]+"(") {
				t.Errorf("line %d: %s has no %s", i+1, n[1], n[2])
			}
		}
	}
	if rules < 50 {
		t.Errorf("only %d rules were read", rules)
	}
}

var ruleNumber = regexp.MustCompile(`^\| ([SKQ]\d+) `)

// TestSchedulingRulesHaveTheirTests: each rule of the public schedulers has a row,
// and each row tests that are there, or the reason why Tenon differs.
func TestSchedulingRulesHaveTheirTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../queue/RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(line, "| rule ") || strings.HasPrefix(line, "|---") {
			continue
		}
		if m := ruleNumber.FindStringSubmatch(line); m != nil {
			rows[m[1]] = true
		}
		named := ruleTest.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 && !strings.Contains(cells[2], "Differs: ") {
			t.Errorf("line %d: neither a test nor a reason to differ", i+1)
		}
		for _, n := range named {
			source, err := os.ReadFile("../" + n[1])
			if err != nil || !strings.Contains(string(source), "\nfunc "+n[2]+"(") {
				t.Errorf("line %d: %s has no %s", i+1, n[1], n[2])
			}
		}
	}
	for letter, last := range map[string]int{"S": 8, "K": 10, "Q": 8} {
		for n := 1; n <= last; n++ {
			if rule := letter + strconv.Itoa(n); !rows[rule] {
				t.Errorf("%s has no row", rule)
			}
		}
	}
}
